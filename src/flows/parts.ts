import type { RecentEntries } from '../caches.js'
import type { Settings } from '../config/settings.js'
import type {
  AuthenticatedUser,
  Clock,
  ContractWallets,
  CredentialVerifier,
  Curve,
  Deadline,
  DidControllers,
  Logger,
  Random,
  ResourceIssuer,
  ResourceKeys,
  SecurityEvent,
  ServiceKey,
  SignatureCache,
  Store,
  Scheduler
} from '../ports.js'
import type { Quotas } from './limits.js'

/** All that the flows work with, wired in `setup-did-auth.ts`. A flow asks for the narrowest `Pick`. */
export interface Parts {
  settings: Settings & { readonly serviceDid: string }
  clock: Clock
  random: Random
  curve: Curve
  serviceKey: ServiceKey
  store: Store
  quotas: Quotas
  /** Access tokens that were verified, whose times are checked again at each use. Another key clears it. */
  verifiedTokens: RecentEntries<AuthenticatedUser>
  disclosureRequests: SignatureCache
  credentialVerifier: CredentialVerifier
  /** Undefined: contracts cannot log in. */
  contractWallets: ContractWallets | undefined
  /** Undefined: the address in a DID controls it. */
  didControllers: DidControllers | undefined
  resourceKeys: ResourceKeys
  /** Undefined: the tokens of no other service count here. */
  resourceIssuer: ResourceIssuer | undefined
  scheduler: Scheduler
  deadline: Deadline
  logger: Logger
  /** Hands an event to the application, with the time added. Never throws. */
  report: (event: Omit<SecurityEvent, 'atSeconds'>) => void
}

/** What a login works with. */
export type LoginParts = Omit<Parts, 'credentialVerifier' | 'disclosureRequests'>
