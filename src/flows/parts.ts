import type { RecentEntries } from '../caches.js'
import type { Settings } from '../config/settings.js'
import type * as ports from '../ports.js'
import type { Quotas } from './limits.js'
import type { EndedSessionLists } from './publish-ended-sessions.js'

/** Dependencies of the flows, wired in `compose-service.ts`. Each flow takes the narrowest `Pick`. */
export interface Parts {
  settings: Settings & { readonly serviceDid: string }
  clock: ports.Clock
  random: ports.Random
  curve: ports.Curve
  serviceKey: ports.ServiceKey
  /** Verifies access tokens by the service's key or by one of its former keys. */
  tokenCurve: Pick<ports.Curve, 'sha256' | 'verify'>
  store: ports.Store
  quotas: Quotas
  /** Cache of verified access tokens. Their times are checked at each use. A change of the key clears it. */
  verifiedTokens: RecentEntries<ports.AuthenticatedUser>
  disclosureRequests: ports.SignatureCache
  credentialVerifier: ports.CredentialVerifier
  /** Undefined: the status of credentials is ignored. */
  assertCredentials: ports.AssertCredentials | undefined
  /** Undefined: contracts cannot log in. */
  contractWallets: ports.ContractWallets | undefined
  /** Undefined: the address in a DID controls the DID. */
  didControllers: ports.DidControllers | undefined
  resourceKeys: ports.ResourceKeys
  endedSessionLists: EndedSessionLists
  /** Verifier of another service's tokens. Undefined: none are accepted. */
  resourceIssuer: ports.ResourceIssuer | undefined
  verifyDeviceSignature: ports.VerifyDeviceSignature
  verifyMachineSignature: ports.VerifyMachineSignature
  scheduler: ports.Scheduler
  /** Error codes of the operating system, such as `ECONNREFUSED`. */
  systemErrorCodes: ReadonlySet<string>
  deadline: ports.Deadline
  logger: ports.Logger
  /** Adds the time to an event and passes it to the application. It never throws. Undefined: nobody listens. */
  report: ((event: Omit<ports.SecurityEvent, 'atSeconds'>) => void) | undefined
}

/** Parts of a login. */
export type LoginParts = Omit<Parts, 'credentialVerifier' | 'assertCredentials' | 'disclosureRequests'>
