import { cachedIssuerKeys } from './adapters/cached-issuer-keys.js'
import { credentialVerifier } from './adapters/credential-verifier.js'
import { loadCurve } from './adapters/curve.js'
import { ownSignerOf } from './adapters/es256k-signer.js'
import { ethrDidResolver, type ClosableDidResolver } from './adapters/ethr-did-resolver.js'
import { EventLoopScheduler } from './adapters/event-loop-scheduler.js'
import { issueJwt } from './adapters/issue-jwt.js'
import { MemorySignatureCache } from './adapters/memory-signature-cache.js'
import { RecentEntries } from './adapters/recent-entries.js'
import { signerServiceKey } from './adapters/signer-service-key.js'
import { systemRandom, timerDeadline } from './adapters/system.js'
import type { Settings } from './config/settings.js'
import { DidAuthError } from './errors.js'
import type { Parts } from './flows/parts.js'
import { BUSINESS_LOGIC_SECONDS } from './flows/run-business-logic.js'
import type { AuthenticatedUser, Deadline, DidResolver } from './ports.js'
import { withinRequest } from './stores/request-client.js'

/** What is there before the curve is loaded. */
type Given = Pick<Parts, 'clock' | 'store' | 'logger' | 'report'> & { settings: Settings; resolver: DidResolver }

/** Loads the curve, and wires all that the flows work with. */
export async function loadParts({ settings, clock, store, logger, report, resolver }: Given): Promise<Parts> {
  const curve = await loadCurve()
  const deadline = withinRequest(timerDeadline)
  const scheduler = new EventLoopScheduler()
  const verifiedTokens = new RecentEntries<AuthenticatedUser>()
  const onKeyChange = (address: string): void => {
    verifiedTokens.clear()
    report({ type: 'signer-address-changed', address })
  }
  const { serviceSigner, isTrustedIssuer, resolution } = settings
  const serviceDid = settings.serviceDid ?? ownSignerOf(serviceSigner)?.didOn(curve)
  if (serviceDid === undefined) throw new DidAuthError('ERR_CONFIG')
  const serviceKey = signerServiceKey({ curve, deadline, logger, onKeyChange }, serviceSigner, serviceDid)
  return {
    settings: Object.freeze({ ...settings, serviceDid }),
    clock,
    random: systemRandom,
    curve,
    serviceKey,
    issueJwt: (payload) => issueJwt(payload, (data) => serviceKey.sign(data)),
    store,
    verifiedTokens,
    disclosureRequests: new MemorySignatureCache(settings.challengeWindowSeconds),
    credentialVerifier: credentialVerifier({
      curve,
      scheduler,
      issuerKeys: cachedIssuerKeys({ clock, deadline }, resolver),
      isTrustedIssuer: isTrustedIssuer && withinDeadline(deadline, isTrustedIssuer),
      provesByAddress: resolution.kind === 'ethr' && resolution.provesByAddress
    }),
    scheduler,
    deadline,
    logger,
    report
  }
}

/** The application's own look-up may be as slow as its other business logic. */
function withinDeadline(
  deadline: Deadline,
  isTrustedIssuer: (did: string) => unknown
): (did: string) => Promise<unknown> {
  const expired = (): Error => new DidAuthError('ERR_BUSINESS_LOGIC_TIMEOUT')
  return (did) => deadline.within(BUSINESS_LOGIC_SECONDS, () => isTrustedIssuer(did), expired)
}

/** How issuers are resolved, as the configuration says. */
export function resolverOf({ resolution }: Settings): ClosableDidResolver {
  if (resolution.kind === 'ethr') return ethrDidResolver(resolution.networks, resolution.registry)
  const { resolver } = resolution
  return {
    resolve: (did, options) => resolver.resolve(did, options),
    close() {
      // The application's own.
    }
  }
}
