/**
 * All that the library needs from outside: ports. Adapters implement them, and stores that of `store-port.ts`.
 *
 * Glossary:
 * - **challenge**: text that a user's wallet signs to prove control of a DID; computed from DID, secret, window and use
 *   count
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
import type { DidAuthErrorCode } from './errors.js'
import type { AccessTokenClaims } from './protocol/access-token.js'
import type { Curve } from './protocol/curve.js'
import type { VerifiedCredential } from './protocol/credential.js'
import type { JsonObject } from './protocol/json.js'
import type { LoginProof } from './protocol/login-proof.js'
import type { SelectiveDisclosureResponse } from './protocol/selective-disclosure.js'
import type { Session } from './protocol/session.js'

/** The wall clock. */
export interface Clock {
  /** Seconds since the Unix epoch. A fraction is cut off. */
  nowSeconds(): number
}

export interface Random {
  /** `byteCount` unpredictable bytes as base64url. */
  id(byteCount: number): string
}

/** A did-jwt ES256K signer of SHA-256 of `data`. @returns base64url of 64 or 65 bytes, or r and s in hexadecimal */
export type Signer = (
  data: string | Uint8Array
) => Promise<string | { r: string; s: string; recoveryParam?: number | undefined }>

/** The service's own key, for tokens. */
export interface ServiceKey {
  /** Returns 65 bytes, uncompressed. @throws DidAuthError ERR_SIGNER */
  publicKey(): Promise<Uint8Array>
  /** Signs a JWT with ES256K. @throws DidAuthError ERR_SIGNER */
  issueJwt(payload: JsonObject & { iss: string; iat: number }, deadline: Deadline): Promise<string>
}

/** Any did-resolver `Resolvable`. */
export interface DidResolver {
  /** Resolves a DID. `signal` aborts when nobody waits for the answer any longer. */
  resolve(did: string, options?: { signal?: AbortSignal }): Promise<unknown>
}

/** A network that did:ethr is resolved on. */
export interface EthrNetwork {
  /** Name of the network as in a DID: `rsk`, `rsk:testnet`. */
  name: string
  rpcUrl: string
  /** Default: read from the node. */
  chainId?: number
}

/** The client of a request, for fair scheduling. */
export interface Client {
  /** An IPv4 address or the /64 of an IPv6 address. */
  readonly network: string
  /** Whether its connection has ended. */
  isGone(): boolean
}

/** The client of a sign up with credentials. */
export interface CredentialClient extends Client {
  /** Counts a key that is tried against the budget of refused proofs. @throws DidAuthError ERR_TOO_MANY_REQUESTS */
  chargeKey(): Promise<void>
}

export interface CredentialVerifier {
  /**
   * Verifies that credentials were signed by the issuers that they name, one after the other, up to the first bad one.
   * @throws DidAuthError ERR_CREDENTIAL, ERR_CREDENTIAL_EXPIRED, ERR_CREDENTIAL_ISSUER, ERR_RESOLVER, ERR_BUSY,
   * ERR_BUSINESS_LOGIC_TIMEOUT, ERR_TOO_MANY_REQUESTS, ERR_STORE
   */
  verify(
    jwts: readonly string[],
    user: { did: string; client: CredentialClient },
    nowSeconds: number,
    deadline?: Deadline
  ): Promise<VerifiedCredential[]>
}

/**
 * A client of a node of one chain, such as viem's `PublicClient`, for users whose account is a contract. Each call may
 * take 3 s at most and is not repeated. What a call throws means that the node is unavailable.
 *
 * @example
 * const transport = http(url, { timeout: 3_000, retryCount: 0 })
 * const client = createPublicClient({ chain, transport, ccipRead: false })
 * setupDidAuth(app, { …, siwe: true, contractWallets: { [chain.id]: client } })
 */
export interface ContractVerifier {
  /** Whether the account accepts the signature of a text by EIP-1271, also before it is deployed (ERC-6492). */
  verifyMessage(request: { address: `0x${string}`; message: string; signature: `0x${string}` }): Promise<boolean>
  /** Returns the code at an address; undefined or `0x` where there is none. */
  getCode(request: { address: `0x${string}` }): Promise<string | undefined>
  getChainId(): Promise<number>
  /** Compared at setup with the chain that it is configured for. */
  readonly chain?: { readonly id: number } | undefined
  /** CCIP-Read (EIP-3668). `false`: the client fetches no URL that a contract names. */
  readonly ccipRead?: unknown
}

/** A signature that no key of the account made, for its contract to judge. */
export interface ContractProof {
  chainId: number
  address: `0x${string}`
  message: string
  signature: `0x${string}`
  client: Client
}

/** The contracts of the configured chains. */
export interface ContractWallets {
  accepts(chainId: number): boolean
  /** @throws DidAuthError ERR_NETWORK, ERR_CONTRACT_ABSENT, ERR_CONTRACT_SIGNATURE, ERR_CHAIN, ERR_BUSY */
  verify(proof: ContractProof): Promise<void>
}

/** Source of the addresses that control a DID by its document. */
export interface DidControllers {
  /**
   * Returns the addresses, lower case, that its document lists under `authentication`; none when it is deactivated.
   * @throws DidAuthError ERR_RESOLVER, ERR_BUSY; ERR_DID_UNSUPPORTED when its document cannot be read, as for a network
   * that is not configured
   */
  of(did: string, client: Client): Promise<ReadonlySet<string>>
}

/** The user of a verified access token; no address controls a DID of another method, in a token made elsewhere. */
export interface AuthenticatedUser {
  claims: AccessTokenClaims
  canonicalDid: string
  address: string | undefined
}

/** A private key of P-256 as JWK (RFC 7518, section 6.2); further members do not count. */
export type ResourceKey = { readonly [Member in 'kty' | 'crv' | 'x' | 'y' | 'd']?: string | undefined }

/** Keys for tokens of other services: the first key signs, and all public keys are published as a JWK set. */
export interface ResourceKeys {
  sign(claims: JsonObject): Promise<string>
  publish(): Promise<{ keys: readonly object[] }>
}

/**
 * The user of a token that another service issued for this one.
 * @throws DidAuthError ERR_ACCESS_TOKEN, ERR_ACCESS_TOKEN_EXPIRED, ERR_DID_UNSUPPORTED, ERR_KEYS
 */
export type ResourceIssuer = (token: string) => Promise<AuthenticatedUser>

export interface SignatureCache {
  /**
   * The text signed under this key before, or that of `sign`: bounded in count, in time and in signatures in flight.
   * @throws DidAuthError ERR_BUSY when too many are being signed, ERR_SIGNER
   */
  signOnce(key: string, client: Client, nowSeconds: number, sign: () => Promise<string>): Promise<string>
}

export interface Scheduler {
  /**
   * Yields to the event loop before arithmetic: round-robin by client network, `background` nearly always last.
   * @throws DidAuthError ERR_BUSY when too many wait, or the client is gone
   */
  yield(client: Client, priority?: 'background'): Promise<void>
}

export interface Deadline {
  /** The result of `work`, or a rejection with the error of `expired` after `seconds`. */
  within<T>(seconds: number, work: () => T | Promise<T>, expired: () => Error): Promise<T>
}

/** Receiver of log lines. Arguments have pino's order, which `console` understands as well. */
export interface Logger {
  /** Receives a line for each refused request, with the check that refused it. Absent: these lines are dropped. */
  debug?(fields: Record<string, unknown>, message: string): void
  info(fields: Record<string, unknown>, message: string): void
  warn(fields: Record<string, unknown>, message: string): void
  error(fields: Record<string, unknown>, message: string): void
}

/** A user's DID in its two comparable forms. */
export interface UserIdentity {
  /** The DID in lower case: keep accounts by it, because one DID has many spellings. */
  canonicalDid: string
  /** The address whose key controls the DID, lower case with `0x`: one key has a DID for each network name. */
  address: string
}

/** Content of an EIP-4361 message, except for its signer. */
export interface SiweDetails {
  statement: string | undefined
  resources: readonly string[] | undefined
  requestId: string | undefined
  chainId: number
}

/** A user who logs in. */
export interface LoginIdentity extends UserIdentity {
  /** Absent after a login by `/auth`. */
  siwe?: SiweDetails
}

/**
 * Business logic at login; receives the DID as received. It may be async. Throwing refuses with the error's message,
 * returning exactly `false` refuses, returning `{ tokenClaims }` adds claims (at most 1 KiB) to the access tokens.
 *
 * A builtin error such as TypeError, and one of the system (`errno`, `syscall`, `ECONNREFUSED`), of DNS, of Node (a
 * `code` that begins with `ERR_`) or of a database (a SQLSTATE), is a failure and not a refusal: it is logged and
 * answered 500. A `code` of your own is a refusal. Look users up by `user.canonicalDid`; ban a key by `user.address`.
 */
export type AuthenticationBusinessLogic = (did: string, user: LoginIdentity) => unknown
/**
 * Business logic at sign up; its result and errors count as those of {@link AuthenticationBusinessLogic}. Without the
 * option `trustedIssuers`, it decides which issuers are trusted: compare `canonicalDid(credential.issuer)`.
 */
export type SignupBusinessLogic = (response: SelectiveDisclosureResponse, user: UserIdentity) => unknown
/**
 * Business logic at each refresh, before anything changes. Returning exactly `false`, or throwing a DidAuthError such
 * as ERR_BUSINESS_LOGIC, refuses and revokes the session. Any other error is a failure: it is answered 500, and the
 * session stays. `{ tokenClaims }` replaces the session's claims.
 */
export type RefreshBusinessLogic = (did: string, session: Session & UserIdentity) => unknown

/** Event that an operator may count, or be notified of. It contains no secret: a proof is used up. */
export interface SecurityEvent {
  type:
    | 'login'
    | 'signup'
    | 'proof-refused'
    | 'refresh-token-reused'
    | 'session-revoked'
    | 'cross-origin-refused'
    | 'too-many-requests'
    | 'sessions-evicted'
    | 'signer-address-changed'
    | 'control-lost'
  /** Seconds since the Unix epoch. */
  atSeconds: number
  /** The user's DID, as received. */
  did?: string
  sessionId?: string
  /** The proof of a `login` or `signup` if `loginProofs` is true. Its challenge is used up. */
  proof?: LoginProof
  /** The code of the answer. */
  code?: DidAuthErrorCode
  /** An IPv4 address, or the /64 of an IPv6 address. */
  clientNetwork?: string
  /** Number of sessions in `sessions-evicted`. */
  count?: number
  /** Address of the key that signs now (`signer-address-changed`), or of the former one (`control-lost`). */
  address?: string
}

/** Receives each {@link SecurityEvent}; what it throws is logged and changes nothing. */
export type OnSecurityEvent = (event: SecurityEvent) => unknown

export { storeVerbs } from './store-port.js'
export type { Curve }
export type * from './store-port.js'
