import { Buffer } from 'node:buffer'
import type { Curve } from './curve.js'
import type { JsonObject } from './json.js'

/** Sessions that one user may have at a time; the oldest is dropped when another is added. */
export const MAX_SESSIONS_PER_DID = 50

/** Replaced refresh tokens that a session remembers, to detect that one is used again. */
export const MAX_REPLACED_TOKENS = 16

/** A user's session on one device. One that expires stays `active`: `expiresAtSeconds` shows it. */
export interface Session {
  readonly sessionId: string
  /** The user's DID as received at login: the `sub` of its access tokens. */
  readonly did: string
  readonly state: 'active' | 'loggedOut' | 'revoked'
  /** Claims that business logic added, repeated in each access token of the session. */
  readonly tokenClaims: JsonObject | undefined
  readonly createdAtSeconds: number
  /** Time at which its current refresh token was issued. */
  readonly rotatedAtSeconds: number
  /** Time at which its current refresh token expires. */
  readonly expiresAtSeconds: number
}

/** A refresh token that was replaced by another. */
export interface ReplacedToken {
  /** SHA-256 as base64url; a store may keep only its first 24 characters (144 bits). */
  readonly hash: string
  readonly replacedAtSeconds: number
}

/** A session with what its store remembers of its refresh tokens. */
export interface StoredSession extends Session {
  /** SHA-256 of the current refresh token, base64url. */
  readonly refreshTokenHash: string
  /** The last `MAX_REPLACED_TOKENS` that were replaced, in any order. */
  readonly replacedTokens: readonly ReplacedToken[]
}

/** Hashes a refresh token, which is stored only so: SHA-256 as base64url. Its 256 random bits need no salt. */
export function hashRefreshToken(curve: Pick<Curve, 'sha256'>, refreshToken: string): string {
  return Buffer.from(curve.sha256(refreshToken)).toString('base64url')
}

/** Returns when a session ends, in seconds since the Unix epoch: with its refresh token, or at a configured end. */
export function endOfSession(
  { createdAtSeconds, expiresAtSeconds }: Pick<Session, 'createdAtSeconds' | 'expiresAtSeconds'>,
  absoluteSessionSeconds: number
): number {
  return Math.min(expiresAtSeconds, createdAtSeconds + absoluteSessionSeconds)
}

/** Input of the judgement about a refresh, in addition to the session. */
export interface PresentedRefreshToken {
  /** SHA-256 of the refresh token presented, base64url. */
  presentedHash: string
  /** Hash of the token that would replace it. A repeated request with the same `Idempotency-Key` has the same one. */
  nextHash: string
  nowSeconds: number
  /** Time after its replacement during which a token is only refused. */
  graceSeconds: number
}

/**
 * Result of using a refresh token.
 * `rotate`: it is valid, replace it. `repeated`: it was replaced by the very token that would replace it now, and that
 * is still the current one: answer the same again. `unknown`: not a token of this session. `ended`: logged out, revoked
 * or expired. `replaced`: replaced a moment ago, as when two tabs race, or a late duplicate of an honest request:
 * refuse. `reused`: replaced longer ago, so that two parties have it: revoke the session.
 */
export type RefreshVerdict = 'rotate' | 'repeated' | 'unknown' | 'ended' | 'replaced' | 'reused'

/** Judges a refresh token. @see specification, "Session and refresh token"; RFC 9700, section 4.14.2 */
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

/** Whether a session knows a refresh token, as its current or as a replaced one. */
export function isTokenOf(session: Pick<StoredSession, 'refreshTokenHash' | 'replacedTokens'>, hash: string): boolean {
  return session.refreshTokenHash === hash || findReplaced(session, hash) !== undefined
}

function findReplaced(session: Pick<StoredSession, 'replacedTokens'>, hash: string): ReplacedToken | undefined {
  return session.replacedTokens.find((token) => hash.startsWith(token.hash))
}
