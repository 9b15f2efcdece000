/**
 * Interfaces (ports) of everything outside the library. Adapters implement these; stores implement `store-port.ts`.
 *
 * Glossary:
 * - **challenge**: text that a user's wallet signs to prove control of a DID. It is computed from the DID, a secret,
 *   the window and the use count.
 * - **window**: the time for which a challenge is valid, 300 s by default; windows are counted from the Unix epoch
 * - **challengeUse**: an answered challenge, counted so that one signature opens one session
 * - **session**: a user's login on one device; it expires with its refresh token
 * - **rotate**: replace a refresh token by the next one; each works once
 * - **proof**: a signed challenge that a login or sign up sends
 * - **issuer**: the DID that signed a verifiable credential
 * - **quota**: maximum number of requests in a **timeSlot**, per user, named DID or client network
 * - **client network**: the IPv4 address of a client, or the /64 of its IPv6 address
 * - **service**: an application with DID login, identified by its `serviceUrl`
 */
import type { DidAuthErrorCode } from './errors.js'
import type { RequestHeaders } from './http-messages.js'
import type { AccessTokenClaims } from './protocol/access-token.js'
import type { Curve } from './protocol/curve.js'
import type { VerifiedCredential } from './protocol/credential.js'
import type { DeviceKey } from './protocol/device-proof.js'
import type { LoginProof } from './protocol/login-proof.js'
import type { MachineKey } from './protocol/machine-did.js'
import type { SelectiveDisclosureResponse } from './protocol/selective-disclosure.js'
import type { Session } from './protocol/session.js'
import type { Deadline } from './time.js'

/** The wall clock. */
export interface Clock {
  /** Returns seconds since the Unix epoch. Callers cut off a fraction. */
  nowSeconds(): number
}

export interface Random {
  /** Returns `byteCount` unpredictable bytes as base64url. */
  id(byteCount: number): string
}

/** Any did-resolver `Resolvable`. */
export interface DidResolver {
  /** Resolves a DID. `signal` aborts when no request waits for the result any longer. */
  resolve(did: string, options?: { signal?: AbortSignal }): Promise<unknown>
}

/** A network on which did:ethr is resolved. */
export interface EthrNetwork {
  /** Name of the network as DIDs spell it: `rsk`, `rsk:testnet`. */
  name: string
  /** URL of the network's JSON-RPC node, http or https. */
  rpcUrl: string
  /** Default: read from the node. */
  chainId?: number
}

/** The client of a request, for fair scheduling. */
export interface Client {
  /** An IPv4 address or the /64 of an IPv6 address. */
  readonly network: string
  /** Whether the client has disconnected. */
  isGone(): boolean
}

/** The client of a sign up with credentials. */
export interface CredentialClient extends Client {
  /** Charges one tried key to the budget of failed proofs. @throws DidAuthError ERR_TOO_MANY_REQUESTS */
  chargeKey(): Promise<void>
}

export interface CredentialVerifier {
  /**
   * Verifies that each credential was signed by the issuer that it names, one by one, up to the first invalid one.
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
 * Asserts that the issuers of verified credentials have neither revoked nor suspended them.
 * @throws DidAuthError ERR_CREDENTIAL_REVOKED; ERR_CREDENTIAL for a status of another form; ERR_CREDENTIAL_STATUS if
 * a list cannot be read; ERR_TOO_MANY_REQUESTS, ERR_STORE
 */
export type AssertCredentials = (
  credentials: readonly VerifiedCredential[],
  client: CredentialClient,
  deadline: Deadline
) => Promise<void>

/**
 * A client for a node of one chain, such as viem's `PublicClient`. It verifies users whose account is a contract.
 * Configure it with a timeout of at most 3 s per call and without retries. If a call throws, the node counts as
 * unavailable.
 *
 * @example
 * const transport = http(url, { timeout: 3_000, retryCount: 0 })
 * const client = createPublicClient({ chain, transport, ccipRead: false })
 * setupDidAuth(app, { …, siwe: true, contractWallets: { [chain.id]: client } })
 */
export interface ContractVerifier {
  /** Whether the account accepts a signature over a text (EIP-1271), even before it is deployed (ERC-6492). */
  verifyMessage(request: { address: `0x${string}`; message: string; signature: `0x${string}` }): Promise<boolean>
  /** Returns the code at an address; undefined or `0x` if the address has no code. */
  getCode(request: { address: `0x${string}` }): Promise<string | undefined>
  /** Returns the id of the chain that the node serves. */
  getChainId(): Promise<number>
  /** Chain of the client. Setup compares its id with the key in `contractWallets`. */
  readonly chain?: { readonly id: number } | undefined
  /** CCIP-Read (EIP-3668). `false`: the client fetches no URL that a contract names. */
  readonly ccipRead?: unknown
}

/** A signature that does not match the account's key, so that the account's contract decides on it. */
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

/** Source of the addresses that control a DID according to its document. */
export interface DidControllers {
  /**
   * Returns the addresses (lower case) that the document lists under `authentication`; none if it is deactivated.
   * @throws DidAuthError ERR_RESOLVER, ERR_BUSY; ERR_DID_UNSUPPORTED if the document cannot be read, for example
   * because the DID's network is not configured
   */
  of(did: string, client: Client): Promise<ReadonlySet<string>>
}

/** The user of a verified access token. `address` is undefined if the DID is not a `did:ethr`. */
export interface AuthenticatedUser {
  claims: AccessTokenClaims
  canonicalDid: string
  address: string | undefined
}

/**
 * Verifies a token that another service issued for this one, and returns its user.
 * @param waitUntil - keeps a fetch of keys or ended sessions alive after the response, as Workers need
 * @throws DidAuthError ERR_ACCESS_TOKEN, ERR_ACCESS_TOKEN_EXPIRED, ERR_DID_UNSUPPORTED, ERR_KEYS; with `endedSessions`
 * ERR_SESSION_ENDED, ERR_ENDED_SESSIONS
 */
export type ResourceIssuer = (token: string, waitUntil?: WaitUntil) => Promise<AuthenticatedUser>

/** Keeps work alive after the response, as `ctx.waitUntil` of Cloudflare Workers does. */
export type WaitUntil = (work: Promise<unknown>) => void

/** Options for the list of ended sessions. */
export interface EndedSessionsOptions {
  /** URL of the list. Default: `ended_sessions_uri` in the discovery document of the issuer. */
  url?: string | undefined
  /** Age in seconds from which a request starts a new fetch in the background. Default 2. */
  pollSeconds?: number | undefined
  /** Age in seconds from which the list is stale. Default 30. */
  maxStaleSeconds?: number | undefined
  /** Answer to requests while the list is stale: 503 (`refuse`, default), or as if no session had ended (`accept`). */
  whenStale?: 'accept' | 'refuse' | undefined
  /** Keeps a fetch alive after the response; Workers need it. Default: a stale list is awaited. */
  waitUntil?: WaitUntil | undefined
}

/** Options for the list of an issuer whose tokens a service accepts. */
export interface IssuerEndedSessionsOptions extends EndedSessionsOptions {
  /** DID (`did:ethr`) that signs the list. Default: `serviceDid` in the discovery document of the issuer. */
  serviceDid?: string | undefined
}

/**
 * Whether a device's key made an ES256 signature over a text. Also false for a key that is no point of P-256.
 * @param signature - 64 bytes, r and then s
 */
export type VerifyDeviceSignature = (key: DeviceKey, text: string, signature: Uint8Array) => boolean

/**
 * Whether the key in a machine's DID made an ES256 or Ed25519 signature over a text. Also false for a key that is no
 * point of its curve. The curve of a service verifies keys of secp256k1.
 */
export type VerifyMachineSignature = (did: string, key: MachineKey, text: string, signature: Uint8Array) => boolean

export interface SignatureCache {
  /**
   * Returns the signed text that is cached under `key`, or else calls `sign` and caches its result. The cache limits
   * its entries, their lifetime and the signatures in flight.
   * @throws DidAuthError ERR_BUSY when too many signatures are in flight, ERR_SIGNER
   */
  signOnce(key: string, client: Client, nowSeconds: number, sign: () => Promise<string>): Promise<string>
}

export interface Scheduler {
  /**
   * Yields to the event loop before a long computation. Client networks take turns; `background` work runs after the
   * others, except in every eighth round.
   * @throws DidAuthError ERR_BUSY when too many computations wait, or the client has disconnected
   */
  yield(client: Client, priority?: 'background'): Promise<void>
}

/** Receiver of log lines. Its methods take their arguments in pino's order; `console` fits as well. */
export interface Logger {
  /** Logs each refused request with the check that refused it. If absent, these lines are dropped. */
  debug?(fields: Record<string, unknown>, message: string): void
  /** Logs a normal event. */
  info(fields: Record<string, unknown>, message: string): void
  /** Logs what an operator should look at. */
  warn(fields: Record<string, unknown>, message: string): void
  /** Logs a failure, with its cause in `fields`. */
  error(fields: Record<string, unknown>, message: string): void
}

/** A user's DID in its two comparable forms. */
export interface UserIdentity {
  /** The DID, a did:ethr in lower case. Use it as the key of accounts, because a did:ethr has many spellings. */
  canonicalDid: string
  /** Address whose key controls the DID, lower case with `0x`. One key has a different DID on each network. */
  address: string
}

/** Fields of an EIP-4361 message that business logic receives. */
export interface SiweDetails {
  /** Line for the user. Undefined: the text has none. */
  statement: string | undefined
  /** Listed URIs. Undefined: the text has no list. */
  resources: readonly string[] | undefined
  /** Undefined: the text has none. */
  requestId: string | undefined
  /** Id of the chain, at least 1. */
  chainId: number
}

/**
 * A user or machine that logs in. A machine whose DID is not a `did:ethr` has no `address`, although the type does not
 * show it: look at `machine` first.
 */
export interface LoginIdentity extends UserIdentity {
  /** Whether a program requests a token, with the option `machineLogin`. Absent for a user. */
  machine?: true
  /** Fields of the signed EIP-4361 message. Absent after a login by `/auth`. */
  siwe?: SiweDetails
}

/**
 * Business logic at login. It may be async, and receives the DID in the spelling that the client sent.
 *
 * - Throw an error to refuse the login; the client gets the error's message.
 * - Return exactly `false` to refuse it without a message of your own.
 * - Return `{ tokenClaims }` to add claims (JSON of at most 1 KiB) to the access tokens of the session.
 *
 * Some errors count as failures instead: they are logged and answered 500. These are built-in errors such as TypeError,
 * and errors of the system (`errno`, `syscall`, `ECONNREFUSED`), of DNS, of Node (a `code` that begins with `ERR_`) and
 * of databases (a SQLSTATE). Any `code` of five characters of `0-9A-Z` with at least one digit counts as a SQLSTATE. An
 * error with another `code` of your own refuses.
 *
 * Look users up by `user.canonicalDid`; ban a key by `user.address`.
 */
export type AuthenticationBusinessLogic = (did: string, user: LoginIdentity) => unknown
/**
 * Business logic at sign up. Its result and errors have the same meaning as in {@link AuthenticationBusinessLogic}.
 * Without the option `trustedIssuers`, it decides which issuers to trust: compare `canonicalDid(credential.issuer)`.
 */
export type SignupBusinessLogic = (response: SelectiveDisclosureResponse, user: UserIdentity) => unknown
/**
 * Business logic at each refresh. It runs before anything changes.
 *
 * - Return exactly `false`, or throw a DidAuthError such as ERR_BUSINESS_LOGIC, to refuse and to revoke the session.
 * - Return `{ tokenClaims }` to replace the claims of the session.
 * - Any other error is a failure: it is answered 500, and the session stays active.
 */
export type RefreshBusinessLogic = (did: string, session: Session & UserIdentity) => unknown

/** The request of a login, for {@link DescribeSession}. */
export interface DescribedRequest {
  /** Headers by their names in lower case. */
  readonly headers: RequestHeaders
}

/**
 * Describes the client of a login, for the list of the user's sessions. It runs after the proof was accepted. The
 * session stores at most 80 printable characters of the text. If it throws, the error is logged and the session has no
 * description.
 *
 * @example
 * describeSession: ({ headers }) => describeUserAgent(headers['user-agent'])
 */
export type DescribeSession = (request: DescribedRequest) => string | undefined

/** Event that operators may count or be notified of. It contains no secret: the challenge of a proof is used up. */
export interface SecurityEvent {
  /** Kind of event, by which the fields below are present or absent. */
  type:
    | 'login'
    | 'signup'
    | 'logout'
    | 'refresh'
    | 'proof-refused'
    | 'refresh-token-reused'
    | 'device-mismatch'
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
  /** Id of the session that the event concerns. */
  sessionId?: string
  /** Whether a machine got a token (`login`). It has no session. */
  machine?: true
  /** Signed message of a `login` or `signup`, if `loginProofs` is true. Its challenge is used up. */
  proof?: LoginProof
  /** Error code that the client received. */
  code?: DidAuthErrorCode
  /** An IPv4 address, or the /64 of an IPv6 address. */
  clientNetwork?: string
  /** Number of sessions in `sessions-evicted`. */
  count?: number
  /** Address of the new key (`signer-address-changed`), or of the key that lost control of the DID (`control-lost`). */
  address?: string
}

/** Receives each {@link SecurityEvent}. If it throws, the error is logged and no request fails. */
export type OnSecurityEvent = (event: SecurityEvent) => unknown

export { optionalVerbs, storeVerbs } from './store-port.js'
export type { Curve }
export type * from './key-ports.js'
export type * from './store-port.js'
export type { Deadline } from './time.js'
