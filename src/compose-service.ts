import { createAssertionSignatures } from './adapters/assertion-signatures.js'
import { createIssuerKeyCache, createDocumentControllers } from './adapters/cached-issuer-keys.js'
import { createContractWallets } from './adapters/contract-wallets.js'
import { createCredentialStatus } from './adapters/credential-status.js'
import { createDeviceSignatures } from './adapters/device-signatures.js'
import { createCredentialVerifier, createIssuerSignatureCheck } from './adapters/credential-verifier.js'
import { loadCurve } from './adapters/curve.js'
import { createEthrDidResolver, type ClosableDidResolver } from './adapters/ethr-did-resolver.js'
import { EventLoopScheduler, requestScheduler } from './adapters/concurrency-limiter.js'
import { createSignatureCache } from './adapters/in-flight-requests.js'
import { curveWithPreviousKeys } from './adapters/named-keys.js'
import { consoleLogger, createSecurityReporter, RequestLogger, warnOfSharedStores } from './adapters/reports.js'
import { createResourceIssuer } from './adapters/resource-issuer.js'
import { createResourceKeys } from './adapters/resource-keys.js'
import { computeDid, createServiceKey, findLocalKey } from './adapters/service-key.js'
import { systemErrorCodes, systemRandom } from './adapters/system.js'
import { RecentEntries } from './caches.js'
import type { CorsSettings } from './config/cors-options.js'
import type { DidAuthConfig } from './config/options.js'
import { listConfigWarnings, parseConfig, type Settings } from './config/settings.js'
import { DidAuthError } from './errors.js'
import { logFailure } from './flows/describe-cause.js'
import { endSession } from './flows/end-session.js'
import { createServiceQuotas } from './flows/limits.js'
import { listSessions } from './flows/manage-sessions.js'
import type { Parts } from './flows/parts.js'
import { EndedSessionLists } from './flows/publish-ended-sessions.js'
import { createErrorAnswerer } from './http/answer-error.js'
import { createCallerFinder } from './http/client-network.js'
import type { GuardOptions, HttpParts } from './http/guard.js'
import { createTokenTransport } from './http/token-transport.js'
import { createLazy } from './lazy.js'
import type { AuthenticatedUser, Logger, Store } from './ports.js'
import { canonicalDid } from './protocol/did.js'
import type { Session } from './protocol/session.js'
import { memoryStore, memoryStores } from './stores/memory/index.js'
import { recordEnds } from './stores/record-ends.js'
import { limitStoreTime } from './stores/with-deadline.js'
import { requestDeadline, systemClock, toWholeSeconds } from './time.js'

/** Lists and ends the sessions of users, for account pages and operators. */
export interface Sessions {
  /** Lists a user's active sessions, the newest first. @throws DidAuthError ERR_STORE */
  list(did: string): Promise<Session[]>
  /**
   * Revokes one session of any user. If a user chooses the session, make sure first that `list(did)` contains it. Its
   * access token stays valid until its `exp`.
   * @returns whether the session was active
   * @throws DidAuthError ERR_STORE
   */
  revoke(sessionId: string): Promise<boolean>
  /**
   * Revokes all sessions of a user. A login at the same moment may open another one: refuse the user in the business
   * logic first.
   * @returns number of revoked sessions
   * @throws DidAuthError ERR_STORE: it is unknown whether the sessions were revoked
   */
  revokeAll(did: string): Promise<number>
}

/** A wired service, which each adapter connects to its framework. */
export interface Service {
  http: HttpParts
  settings: Settings
  /** Settings that `corsOptions` reads. */
  corsSettings: CorsSettings
  logger: Logger
  /** Loads all parts, and asks signer and store whether they are ready. Logs and rejects with a failure. */
  probe: () => Promise<void>
  /** Returns the DID of the service, which may follow from the key of its signer. */
  serviceDid: () => Promise<string>
  /** Warns once of a guard that refuses most requests. @param name - the guard as its caller wrote it */
  warnOfGuard: (options: GuardOptions, name: string) => void
  sessions: Sessions
  /** Closes everything that this function opened. */
  close: () => Promise<void>
}

/**
 * Wires the parts of a service from its options, without a framework. It does no I/O, reads no clock, starts no timer
 * and needs no random number: some runtimes allow them only during a request.
 * @throws DidAuthError ERR_CONFIG, which lists all problems
 */
export function composeService(config: DidAuthConfig): Service {
  const settings = parseConfig(config, findLocalKey)
  const { serviceUrl, trustedOrigins, errorFormat } = settings
  const logger = config.logger ?? consoleLogger
  const clock = toWholeSeconds(config.clock ?? systemClock)
  const { listedSeconds } = settings
  const wrap = (store: Store): Store => (listedSeconds === undefined ? store : recordEnds(store, listedSeconds))
  const storeFor = config.store && limitStoreTime(wrap(config.store))
  const store = storeFor?.() ?? wrap(memoryStore())
  const environment = {
    hasOwnStore: config.store !== undefined && !memoryStores.has(config.store),
    isProduction: process.env.NODE_ENV === 'production'
  }
  const warnings = [...listConfigWarnings(settings, environment), ...warnOfSharedStores(config.store, settings)]
  for (const warning of warnings) logger.warn({ event: 'configuration' }, warning)

  const report = createSecurityReporter(clock, logger, config.onSecurityEvent)
  const resolver = createResolver(settings)
  const quotas = createServiceQuotas(clock, settings)
  const loaded = createLazy(() => loadParts(settings, { clock, store, quotas, logger, report }, resolver))
  const transport = createTokenTransport(settings)
  const isDevelopment = !environment.isProduction
  const answerError = createErrorAnswerer({ serviceUrl, errorFormat, logger, report, isDevelopment })
  const http: HttpParts = {
    settings,
    quotas,
    // Store, business logic and signer share one deadline in each request.
    parts: async (requestId) => {
      const [parts, deadline] = [await loaded(), requestDeadline()]
      const reports: Partial<Pick<Parts, 'logger' | 'report'>> =
        requestId === undefined
          ? {}
          : { logger: new RequestLogger(logger, requestId), report: report && ((event) => report(event, requestId)) }
      return { ...parts, ...reports, deadline, store: storeFor?.(deadline) ?? store }
    },
    callerOf: createCallerFinder(trustedOrigins, logger, settings.describeSession),
    transport,
    answerError: (request, error) => {
      const answer = answerError(request, error)
      return answer.errorCode === 'ERR_DUPLICATE_COOKIE' ? transport.clearStaleTokens(answer, request) : answer
    }
  }

  const probe = async (): Promise<void> => {
    try {
      const { serviceKey, resourceKeys } = await loaded()
      await Promise.all([serviceKey.publicKey(), store.ping(), settings.resources.length > 0 && resourceKeys.publish()])
    } catch (error) {
      const { code } = Object(error) as { code?: unknown }
      logFailure(logger, { event: 'not-ready' }, { code, cause: error, text: 'not ready yet' })
      throw error
    }
  }

  const warned = new Set<string>()
  return {
    http,
    settings,
    corsSettings: { serviceUrl, trustedOrigins: [...trustedOrigins], useCookies: settings.useCookies },
    logger,
    probe,
    serviceDid: async () => settings.serviceDid ?? (await loaded()).settings.serviceDid,
    warnOfGuard({ deviceProof }, name) {
      const { useCookies, deviceBinding } = settings
      if (deviceProof !== true || !(useCookies || deviceBinding.mode === 'off') || warned.has(name)) return
      warned.add(name)
      const why = useCookies ? 'pages cannot read the tokens in cookies' : 'deviceBinding is off'
      logger.warn({ event: 'configuration' }, `${name} refuses most requests: ${why}`)
    },
    sessions: {
      list: (did: string) => listSessions({ settings, clock, store }, did),
      async revoke(sessionId: string) {
        const wasActive = await endSession({ settings, clock, store }, sessionId, 'revoked')
        if (wasActive) report?.({ type: 'session-revoked', sessionId })
        return wasActive
      },
      async revokeAll(did: string) {
        const count = await store.revokeSessions(serviceUrl, canonicalDid(did), clock.nowSeconds())
        if (count > 0) report?.({ type: 'session-revoked', did, count })
        return count
      }
    },
    async close() {
      resolver.close()
      if (config.store === undefined) await store.close()
    }
  }
}

/** Loads the curve and wires the parts that all requests share. */
async function loadParts(
  settings: Settings,
  wiredParts: Pick<Parts, 'clock' | 'store' | 'quotas' | 'logger' | 'report'>,
  resolver: ClosableDidResolver
): Promise<Omit<Parts, 'deadline'>> {
  const curve = await loadCurve()
  const { clock, logger, report } = wiredParts
  // Workers are the runtime without WebAssembly.
  const scheduler = curve.kind === 'pure' ? requestScheduler : new EventLoopScheduler()
  const verifiedTokens = new RecentEntries<AuthenticatedUser>()
  const onKeyChange = (address: string): void => {
    verifiedTokens.clear()
    report?.({ type: 'signer-address-changed', address })
  }
  const { serviceSigner, isTrustedIssuer, resolution, contractWallets: contracts, didControl, networks } = settings
  const ownKey = findLocalKey(serviceSigner)
  const serviceDid = settings.serviceDid ?? (ownKey && computeDid(curve, ownKey))
  if (serviceDid === undefined) throw new DidAuthError('ERR_CONFIG')
  const isSigned = createIssuerSignatureCheck({
    curve,
    scheduler,
    issuerKeys: createIssuerKeyCache(clock, resolver, 'assertionMethod'),
    provesByAddress: resolution.kind === 'ethr' && resolution.provesByAddress
  })
  const checksStatus = settings.credentialStatus === 'check'
  const serviceKey = createServiceKey({ curve, logger, onKeyChange }, serviceSigner, serviceDid)
  return {
    ...wiredParts,
    settings: Object.freeze({ ...settings, serviceDid }),
    random: systemRandom,
    systemErrorCodes,
    curve,
    tokenCurve: curveWithPreviousKeys(curve, settings.previousServiceDids),
    serviceKey,
    verifiedTokens,
    disclosureRequests: createSignatureCache(settings.challengeWindowSeconds),
    credentialVerifier: createCredentialVerifier({ isSigned, isTrustedIssuer }),
    assertCredentials: checksStatus ? createCredentialStatus(clock, isSigned, settings.serviceUrl) : undefined,
    contractWallets: contracts && createContractWallets(logger, contracts),
    didControllers: didControl === 'document' ? createDocumentControllers(clock, curve, resolver) : undefined,
    verifyDeviceSignature: createDeviceSignatures(),
    verifyMachineSignature: createAssertionSignatures(),
    resourceKeys: createResourceKeys(settings.resourceKeys),
    endedSessionLists: new EndedSessionLists(),
    resourceIssuer:
      settings.resourceIssuer &&
      createResourceIssuer({ ...settings.resourceIssuer, networks, clock, logger, loadCurve }),
    scheduler
  }
}

/** Creates the resolver for DIDs of credential issuers, and of users with `didControl: 'document'`. */
function createResolver({ resolution }: Settings): ClosableDidResolver {
  if (resolution.kind === 'ethr') return createEthrDidResolver(resolution.networks, resolution.registry)
  const { resolver } = resolution
  // The application closes its own resolver.
  return { resolve: (did, options) => resolver.resolve(did, options), close: () => undefined }
}
