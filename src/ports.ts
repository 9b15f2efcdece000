import type { AccessTokenClaims } from './protocol/access-token.js'
import type { Curve } from './protocol/curve.js'
import type { VerifiedCredential } from './protocol/credential.js'
import type { JsonObject } from './protocol/json.js'
import type { RefreshVerdict, Session } from './protocol/session.js'
import type { SelectiveDisclosureResponse } from './protocol/selective-disclosure.js'

/** Tells the time. */
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

/** The service's own key: signs tokens, and says which public key they verify with. */
export interface ServiceKey {
  /** 65 bytes, uncompressed. Learnt once. @throws DidAuthError ERR_SIGNER */
  publicKey(): Promise<Uint8Array>
  /** 64 bytes, low s. @throws DidAuthError ERR_SIGNER */
  sign(data: string): Promise<Uint8Array>
}

/** Any did-resolver `Resolvable`. */
export interface DidResolver {
  resolve(did: string): Promise<unknown>
}

/** A network that did:ethr is resolved on. */
export interface EthrNetwork {
  /** As in a DID: `rsk`, `rsk:testnet`. */
  name: string
  rpcUrl: string
  /** Asked from the node when it is not given. */
  chainId?: number
}

/** Proves that the issuer which a credential names signed it. */
export interface CredentialVerifier {
  /** @throws DidAuthError ERR_CREDENTIAL, ERR_CREDENTIAL_EXPIRED, ERR_CREDENTIAL_ISSUER, ERR_RESOLVER, ERR_BUSY */
  verify(jwts: readonly string[], userDid: string, nowSeconds: number): Promise<VerifiedCredential[]>
}

/** Access tokens verified before: bounded, and never asked without looking at the times again. */
export interface VerifiedTokens {
  get(token: string): AccessTokenClaims | undefined
  add(token: string, claims: AccessTokenClaims): void
}

/** Where log lines go: pino's order of arguments, which `console` understands as well. */
export interface Logger {
  info(fields: Record<string, unknown>, message: string): void
  warn(fields: Record<string, unknown>, message: string): void
  error(fields: Record<string, unknown>, message: string): void
}

/** Gives long arithmetic its turns, so that other requests are answered in between. */
export interface Turns {
  /** Resolves when it is the caller's turn. @throws DidAuthError ERR_BUSY when too many wait */
  take(): Promise<void>
}

/** Puts an end to waiting. */
export interface Deadline {
  /** The work's result, or a rejection with what `expired` makes once `seconds` have passed. */
  within<T>(seconds: number, work: () => T | Promise<T>, expired: () => Error): Promise<T>
}

/**
 * Business logic at login; receives the DID as received. It may be async. Throwing refuses with the error's message,
 * returning exactly `false` refuses, returning `{ tokenClaims }` adds claims (at most 1 KiB) to the access tokens.
 *
 * Look users up by `canonicalDid(did)`: one DID has many spellings. And one key has many DIDs, because any network name is
 * accepted: to ban a key, compare `addressOfDid(did)` of `express-did-auth/protocol`.
 */
export type AuthenticationBusinessLogic = (did: string) => unknown
/**
 * Business logic at sign up; its result and errors count as those of {@link AuthenticationBusinessLogic}. Which issuers of
 * credentials are trusted is for it to say: compare `canonicalDid(credential.issuer)`.
 */
export type SignupBusinessLogic = (response: SelectiveDisclosureResponse) => unknown

export type { Curve }

/** The two flows that count the uses of a challenge, each for itself. */
export type ChallengeFlow = 'logIn' | 'signUp'

/** A session to be created, with the SHA-256 of its refresh token in base64url. */
export interface NewSession {
  /** The `serviceUrl`: sessions of one service are unknown to another on the same store. */
  service: string
  sessionId: string
  did: string
  refreshTokenHash: string
  tokenClaims: JsonObject | undefined
  nowSeconds: number
  expiresAtSeconds: number
}

export interface Rotation {
  service: string
  /** SHA-256 of the refresh token presented, base64url. */
  presentedHash: string
  nextHash: string
  nowSeconds: number
  nextExpiresAtSeconds: number
  graceSeconds: number
}

/** Which uses are counted: of one user in one window of one service. */
export interface ChallengeUseKey {
  service: string
  /** Canonical DID. */
  did: string
  window: number
}

export interface ChallengeUse extends ChallengeUseKey {
  flow: ChallengeFlow
  /** The count that the signed challenge was computed with. */
  useCount: number
  /** Whether the same signature would be good in the other flow as well. */
  spendsBoth: boolean
  nowSeconds: number
  /** End of the window: the count is forgotten `USES_OUTLIVE_WINDOW_SECONDS` later, never earlier. */
  expiresAtSeconds: number
}

export interface QuotaCharge {
  service: string
  /** `request`: of a user who proved control. `naming`: of a stranger who names a DID; the first to go when room is scarce. */
  kind: 'request' | 'naming'
  /** Whose requests are counted. */
  key: string
  /** 0 reads the count, 1 adds to it. */
  cost: 0 | 1
  nowSeconds: number
  timeSlotSeconds: number
}

export interface QuotaState {
  /** Requests counted in the current time slot, this one included. */
  count: number
  /** Seconds since the Unix epoch when the counter starts again. */
  resetsAtSeconds: number
}

/**
 * All state: sessions, uses of challenges, quotas.
 *
 * Each verb that changes something is atomic, also between several instances that share the store; there is no
 * get-then-set. Secrets arrive as hashes. Times are whole seconds since the Unix epoch, and always given by the caller.
 * A rejected promise means that the store is out of reach, and is answered 503. `storeContract` of
 * `express-did-auth/testing` is the suite that every store has to pass.
 */
export interface Store {
  /**
   * Adds a session. Beyond `MAX_SESSIONS_PER_DID` of a user, one is dropped: an expired one, else one that ended, else
   * the oldest.
   */
  createSession(session: NewSession): Promise<void>
  /**
   * The session that a refresh token belongs to, current or replaced, in whatever state. An expired
   * one may be forgotten. Changes nothing.
   */
  findSession(service: string, refreshTokenHash: string): Promise<Session | undefined>
  /**
   * Uses a refresh token as `judgeRefresh` says: `rotate` replaces it by the next, `reused` revokes its session, the
   * others change nothing. `unknown` for a token that no session remembers. Of any number of simultaneous calls with one
   * token, exactly one gets `rotate`.
   */
  rotateRefreshToken(rotation: Rotation): Promise<RefreshVerdict | 'unknown'>
  /** Ends an active session. True when it was active. */
  endSession(service: string, sessionId: string, state: 'loggedOut' | 'revoked', nowSeconds: number): Promise<boolean>
  /** Revokes a user's active sessions and answers how many there were. */
  revokeSessions(service: string, canonicalDid: string, nowSeconds: number): Promise<number>
  /** A user's active sessions, the newest first. */
  listSessions(service: string, canonicalDid: string, nowSeconds: number): Promise<Session[]>

  /** How often challenges of this window were used up in each flow. */
  countChallengeUses(key: ChallengeUseKey): Promise<Record<ChallengeFlow, number>>
  /**
   * Uses up challenge number `useCount`: raises the flow's count by one if it still is `useCount` (and the other flow's
   * to at least that, with `spendsBoth`). `taken` when another was faster or the window is over, `full` when no further
   * use can be remembered.
   */
  useChallenge(use: ChallengeUse): Promise<'used' | 'taken' | 'full'>

  /** Counts a request in its time slot, which begins with the first request counted. */
  chargeQuota(charge: QuotaCharge): Promise<QuotaState>

  /** Resolves when the store can work. */
  ping(): Promise<void>
  close(): Promise<void>
}

/** The verbs of a store that can fail: what a store is checked for, and guarded in. */
export const storeVerbs = [
  'createSession',
  'findSession',
  'rotateRefreshToken',
  'endSession',
  'revokeSessions',
  'listSessions',
  'countChallengeUses',
  'useChallenge',
  'chargeQuota',
  'ping'
] as const satisfies readonly (keyof Store)[]
