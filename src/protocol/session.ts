import type { JsonObject } from './json.js'

/** Maximum number of sessions per user. Beyond it, a store deletes one: see `createSession` in `store-port.ts`. */
export const MAX_SESSIONS_PER_DID = 50

/** Number of replaced refresh tokens that a session stores, to detect their reuse. */
export const MAX_REPLACED_TOKENS = 16

/** Maximum number of characters of a session's description. */
const MAX_DESCRIPTION_CHARACTERS = 80

/** Characters that a list cannot show: controls, formats such as changes of direction, unpaired surrogates. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}]+/gu

/** A user's session on one device. An expired session is still `active`: compare `expiresAtSeconds`. */
export interface Session {
  /** Random id of the session: the `sid` of its tokens. It is no secret. */
  readonly sessionId: string
  /** The user's DID as received at login: the `sub` of its access tokens. */
  readonly did: string
  /** `revoked`: ended by the service, by business logic, or after a reused refresh token. */
  readonly state: 'active' | 'loggedOut' | 'revoked'
  /** Claims that each access token of the session contains: those of business logic, and those of the login. */
  readonly tokenClaims: JsonObject | undefined
  /** Time of the login, in seconds since the Unix epoch. */
  readonly createdAtSeconds: number
  /** Time at which the current refresh token was issued, in seconds since the Unix epoch. */
  readonly rotatedAtSeconds: number
  /** Time at which the current refresh token expires, in seconds since the Unix epoch. */
  readonly expiresAtSeconds: number
  /** Description of the client at login, for lists of sessions: `Chrome on Windows`. At most 80 characters. */
  readonly description?: string | undefined
}

/** A refresh token that a newer one has replaced. */
export interface ReplacedToken {
  /** SHA-256 as base64url. A store may shorten it to the first 24 characters (144 bits). */
  readonly hash: string
  /** Time of the replacement, in seconds since the Unix epoch. */
  readonly replacedAtSeconds: number
}

/** A session with the hashes of its refresh tokens. */
export interface StoredSession extends Session {
  /** SHA-256 of the current refresh token, base64url. */
  readonly refreshTokenHash: string
  /** The last replaced tokens, at most `MAX_REPLACED_TOKENS`, in any order. */
  readonly replacedTokens: readonly ReplacedToken[]
}

/**
 * Returns when a session expires, in seconds since the Unix epoch: with its refresh token, or earlier because of
 * `absoluteSessionDurationInHours`.
 */
export function endOfSession(
  { createdAtSeconds, expiresAtSeconds }: Pick<Session, 'createdAtSeconds' | 'expiresAtSeconds'>,
  absoluteSessionSeconds: number
): number {
  return Math.min(expiresAtSeconds, createdAtSeconds + absoluteSessionSeconds)
}

/** Returns the description to store: at most 80 printable characters. Undefined if none is left. */
export function toSessionDescription(text: string): string | undefined {
  const printable = text.replace(UNPRINTABLE, '').trim()
  const cut = Array.from(printable).slice(0, MAX_DESCRIPTION_CHARACTERS).join('').trimEnd()
  return cut === '' ? undefined : cut
}

/** Input of `judgeRefresh` in addition to the session. */
export interface PresentedRefreshToken {
  /** SHA-256 of the refresh token in the request, base64url. */
  presentedHash: string
  /** Hash of the next refresh token. A repeated request with the same `Idempotency-Key` has the same one. */
  nextHash: string
  /** Current time, in seconds since the Unix epoch. */
  nowSeconds: number
  /** Seconds after its replacement in which a token is only refused, and its session is not revoked. */
  graceSeconds: number
}

/**
 * Result of using a refresh token.
 * - `rotate`: the token is current; replace it.
 * - `repeated`: an earlier request replaced it by the same next token, which is still current; answer the same again.
 * - `unknown`: it is not a token of this session.
 * - `ended`: the session was logged out or revoked, or has expired.
 * - `replaced`: refuse it, in two cases. It was replaced within the grace period, as when two tabs race. Or the next
 *   token of this request was replaced too: the request is a late duplicate.
 * - `reused`: it was replaced longer ago, so that two parties have it; revoke the session.
 */
export type RefreshVerdict = 'rotate' | 'repeated' | 'unknown' | 'ended' | 'replaced' | 'reused'

/** Decides on a refresh token. @see specification, "Session and refresh token"; RFC 9700, section 4.14.2 */
export function judgeRefresh(
  session: Pick<StoredSession, 'state' | 'expiresAtSeconds' | 'refreshTokenHash' | 'replacedTokens'>,
  { presentedHash, nextHash, nowSeconds, graceSeconds }: PresentedRefreshToken
): RefreshVerdict {
  const isCurrent = session.refreshTokenHash === presentedHash
  const replaced = isCurrent ? undefined : findReplaced(session, presentedHash)
  if (!isCurrent && replaced === undefined) return 'unknown'
  if (session.state !== 'active' || nowSeconds >= session.expiresAtSeconds) return 'ended'
  if (replaced === undefined) return 'rotate'
  if (session.refreshTokenHash === nextHash) return 'repeated'
  if (findReplaced(session, nextHash) !== undefined) return 'replaced'
  return nowSeconds - replaced.replacedAtSeconds > graceSeconds ? 'reused' : 'replaced'
}

/** Whether a hash is that of a session's current refresh token, or of a replaced one that is still stored. */
export function isTokenOf(session: Pick<StoredSession, 'refreshTokenHash' | 'replacedTokens'>, hash: string): boolean {
  return session.refreshTokenHash === hash || findReplaced(session, hash) !== undefined
}

function findReplaced(session: Pick<StoredSession, 'replacedTokens'>, hash: string): ReplacedToken | undefined {
  return session.replacedTokens.find((token) => hash.startsWith(token.hash))
}
