/**
 * All that the library needs from outside: ports. Adapters and stores implement them. The store and the application have
 * files of their own, `store-port.ts` and `application-port.ts`.
 *
 * Glossary:
 * - **challenge**: text that a user's wallet signs to prove control of a DID; computed from DID, secret, window and use count
 * - **window**: the time for which a challenge is valid, counted from the Unix epoch: 300 s by default
 * - **challengeUse**: a challenge of a user that was answered, counted so that one signature opens one session
 * - **session**: a user's login on one device; it lives as long as its refresh token
 * - **rotate**: replace a refresh token by the next one, which works once
 * - **proof**: a signed challenge, as login and sign up receive it
 * - **issuer**: the DID that signed a verifiable credential
 * - **quota**: at most so many requests in a **timeSlot**; the budget of a user, a named DID, or a client network
 * - **client network**: the IPv4 address of a client, or the /64 of its IPv6 address
 * - **service**: an application with DID login, identified by its `serviceUrl`
 */
import type { AccessTokenClaims } from './protocol/access-token.js'
import type { Curve } from './protocol/curve.js'
import type { VerifiedCredential } from './protocol/credential.js'
import type { QuotaCharge } from './store-port.js'

/** The wall clock. */
export interface Clock {
  /** Seconds since the Unix epoch. A fraction is cut off. */
  nowSeconds(): number
}

/** Unpredictable bytes. */
export interface Random {
  /** `byteCount` random bytes as base64url. */
  id(byteCount: number): string
}

/**
 * A did-jwt ES256K signer: signs SHA-256 of `data`.
 *
 * @returns base64url of 64 or 65 bytes, or r and s in hexadecimal
 */
export type Signer = (
  data: string | Uint8Array
) => Promise<string | { r: string; s: string; recoveryParam?: number | undefined }>

/** The service's own key, private and public: signs and verifies tokens. */
export interface ServiceKey {
  /** 65 bytes, uncompressed. @throws DidAuthError ERR_SIGNER */
  publicKey(): Promise<Uint8Array>
  /** 64 bytes, low s. @throws DidAuthError ERR_SIGNER */
  sign(data: string): Promise<Uint8Array>
}

/** Any did-resolver `Resolvable`. */
export interface DidResolver {
  /** `signal` aborts when no client waits for the answer any more. */
  resolve(did: string, options?: { signal?: AbortSignal }): Promise<unknown>
}

/** A network that did:ethr is resolved on. */
export interface EthrNetwork {
  /** As in a DID: `rsk`, `rsk:testnet`. */
  name: string
  rpcUrl: string
  /** Default: read from the node. */
  chainId?: number
}

/** The client of a request, for fair scheduling and for budgets. */
export interface Client {
  /** Its network, as `clientNetwork` of the HTTP layer computes it: an IPv4 address or the /64 of an IPv6 address. */
  readonly network: string
  /** Whether its connection has ended, so that an answer would not be read. */
  isGone(): boolean
}

/** The client of a sign up with credentials. */
export interface CredentialClient extends Client {
  /** Counts a key that is tried against the budget of refused proofs. @throws DidAuthError ERR_TOO_MANY_REQUESTS */
  chargeKey(): Promise<void>
}

/** Verifies that a credential was signed by the issuer that it names. */
export interface CredentialVerifier {
  /**
   * Verifies credentials one after the other, up to the first bad one.
   *
   * @throws DidAuthError ERR_CREDENTIAL, ERR_CREDENTIAL_EXPIRED, ERR_CREDENTIAL_ISSUER, ERR_RESOLVER, ERR_BUSY,
   * ERR_TOO_MANY_REQUESTS, ERR_STORE
   */
  verify(
    jwts: readonly string[],
    user: { did: string; client: CredentialClient },
    nowSeconds: number
  ): Promise<VerifiedCredential[]>
}

/** The user of a verified access token. */
export interface AuthenticatedUser {
  claims: AccessTokenClaims
  /** Canonical form of `claims.sub`. */
  canonicalDid: string
  /** The address that controls the DID; undefined for a DID of another method, in a token made elsewhere. */
  address: string | undefined
}

/** A bounded cache of verified access tokens. Their times are checked again at each use. */
export interface VerifiedTokens {
  get(token: string): AuthenticatedUser | undefined
  set(token: string, user: AuthenticatedUser): void
  /** Drops all: the service has another key now. */
  clear(): void
}

/** What a quota bounds: a user's requests, requests that name a DID, refused proofs, logins. */
export type Budget = 'requests' | 'namings' | 'proofs' | 'logins'

/** One quota: at most `limit` in a time slot. */
export interface Quota {
  budget: Budget
  /** As in {@link QuotaCharge}. */
  kind: QuotaCharge['kind']
  /** Budget and owner in plain text; a store sees only an HMAC of it. */
  name: string
  limit: number
}

/** The quotas of one service. */
export interface Quotas {
  /** Counts one request. @throws DidAuthError ERR_TOO_MANY_REQUESTS, ERR_STORE */
  charge(quota: Quota): Promise<void>
  /** Asserts that no earlier charge used the quota up, from memory alone. @throws DidAuthError ERR_TOO_MANY_REQUESTS */
  assertLeft(quota: Pick<Quota, 'budget' | 'name' | 'limit'>): void
}

/** Signs each text once and caches the result: bounded in count, in time and in signatures in flight. */
export interface SignatureCache {
  /**
   * The cached result for this key, or the result of `sign`.
   *
   * @throws DidAuthError ERR_BUSY when too many are being signed, ERR_SIGNER
   */
  signOnce(key: string, client: Client, nowSeconds: number, sign: () => Promise<string>): Promise<string>
}

/** Schedules long arithmetic, so that other requests are answered in between. */
export interface Scheduler {
  /**
   * Yields to the event loop before a piece of arithmetic: round-robin by client network, `background` nearly always last.
   *
   * @throws DidAuthError ERR_BUSY when too many wait, or the client is gone
   */
  yield(client: Client, priority?: 'background'): Promise<void>
}

/** Bounds waiting. */
export interface Deadline {
  /** The result of `work`, or a rejection with the error of `expired` after `seconds`. */
  within<T>(seconds: number, work: () => T | Promise<T>, expired: () => Error): Promise<T>
}

export type { Curve }
export type * from './application-port.js'
export * from './store-port.js'
