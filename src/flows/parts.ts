import type { RecentEntries } from '../caches.js'
import type { Settings } from '../config/settings.js'
import type * as ports from '../ports.js'
import type { Quotas } from './limits.js'

/** All dependencies of the flows, wired in `setup-did-auth.ts`. A flow takes the narrowest `Pick`. */
export interface Parts {
  settings: Settings & { readonly serviceDid: string }
  clock: ports.Clock
  random: ports.Random
  curve: ports.Curve
  serviceKey: ports.ServiceKey
  /** Verifies access tokens: by the service's key, or by one that it had before. */
  tokenCurve: Pick<ports.Curve, 'sha256' | 'verify'>
  store: ports.Store
  quotas: Quotas
  /** Access tokens that were verified, whose times are checked again at each use. Another key clears it. */
  verifiedTokens: RecentEntries<ports.AuthenticatedUser>
  disclosureRequests: ports.SignatureCache
  credentialVerifier: ports.CredentialVerifier
  /** Undefined: contracts cannot log in. */
  contractWallets: ports.ContractWallets | undefined
  /** Undefined: the address in a DID controls it. */
  didControllers: ports.DidControllers | undefined
  resourceKeys: ports.ResourceKeys
  /** Verifier of another service's tokens. Undefined: none are accepted. */
  resourceIssuer: ports.ResourceIssuer | undefined
  scheduler: ports.Scheduler
  /** Names of the errors of the operating system, such as `ECONNREFUSED`. */
  systemErrorCodes: ReadonlySet<string>
  deadline: ports.Deadline
  logger: ports.Logger
  /** Hands an event to the application, with the time added. Never throws. */
  report: (event: Omit<ports.SecurityEvent, 'atSeconds'>) => void
}

/** Parts of a login. */
export type LoginParts = Omit<Parts, 'credentialVerifier' | 'disclosureRequests'>
