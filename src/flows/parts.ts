import type { RecentEntries } from '../caches.js'
import type { Settings } from '../config/settings.js'
import type {
  AuthenticatedUser,
  Client,
  Clock,
  ContractWallets,
  CredentialVerifier,
  Curve,
  Deadline,
  DidControllers,
  Logger,
  QuotaCharge,
  QuotaStore,
  Random,
  ResourceIssuer,
  ResourceKeys,
  SecurityEvent,
  ServiceKey,
  SignatureCache,
  Store,
  Scheduler
} from '../ports.js'

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

/** One quota: at most `limit` in a time slot. */
export interface Quota {
  /** A user's requests, those that name a DID, refused proofs, logins, nonces, proofs on chains, open reads. */
  budget: 'requests' | 'namings' | 'proofs' | 'logins' | 'nonces' | 'contracts' | 'reads'
  kind: QuotaCharge['kind']
  /** Budget and owner in plain text; a store sees only an HMAC of it. */
  name: string
  limit: number
}

/** The quotas of one service. */
export interface Quotas {
  /** Counts one request in a store. @throws DidAuthError ERR_TOO_MANY_REQUESTS, ERR_STORE */
  charge(store: QuotaStore, quota: Quota): Promise<void>
  /** Asserts that no earlier charge used the quota up, from memory alone. @throws DidAuthError ERR_TOO_MANY_REQUESTS */
  assertLeft(quota: Quota): void
}

/** What a login works with. */
export type LoginParts = Omit<Parts, 'credentialVerifier' | 'disclosureRequests'>

/** Who sent a request, as far as that is known without proof. */
export interface Caller extends Client {
  /**
   * The networks that its requests count for, the smallest first, and how many times the budget each has. Requests that
   * a page of another site makes a browser send count for networks of their own, so that no page locks its visitor out.
   */
  readonly networks: readonly { network: string; factor: number }[]
  /** Whether all users may share its address: it is that of a proxy which the application does not trust. */
  readonly isShared: boolean
}
