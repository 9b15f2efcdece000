import { encodeBase64url } from './base64url.js'
import type { Curve } from './curve.js'
import type { JsonObject } from './json.js'

/** Sessions that one user may have at a time; the oldest goes when another is added. */
export const MAX_SESSIONS_PER_DID = 50

/** Replaced refresh tokens that a session remembers, to notice that one comes back. */
export const MAX_REPLACED_TOKENS = 16

/**
 * A user's session on one device.
 *
 * `active` until it is logged out, revoked, or its refresh token expires; expiry is read from `expiresAtSeconds`.
 */
export interface Session {
  readonly sessionId: string
  /** The user's DID as received at login: the `sub` of its access tokens. */
  readonly did: string
  readonly state: 'active' | 'loggedOut' | 'revoked'
  /** Claims that business logic added, repeated in each access token of the session. */
  readonly tokenClaims: JsonObject | undefined
  readonly createdAtSeconds: number
  /** When its current refresh token was issued. */
  readonly rotatedAtSeconds: number
  /** When its current refresh token ends. */
  readonly expiresAtSeconds: number
}

/** The only form in which a refresh token is kept: SHA-256 as base64url. Its 256 random bits need no salt. */
export function hashRefreshToken(curve: Pick<Curve, 'sha256'>, refreshToken: string): string {
  return encodeBase64url(curve.sha256(refreshToken))
}

/** What a refresh token that is presented is to its session. */
export interface PresentedRefreshToken {
  state: Session['state']
  expiresAtSeconds: number
  /** When it was replaced by another; undefined for the current one. */
  replacedAtSeconds: number | undefined
}

/**
 * What the use of a refresh token leads to.
 *
 * `rotate`: it is good, replace it. `ended`: logged out, revoked or expired. `replaced`: replaced a moment ago, as when
 * two tabs race: refuse. `reused`: replaced longer ago, so that two parties hold it: revoke the session.
 */
export type RefreshVerdict = 'rotate' | 'ended' | 'replaced' | 'reused'

/**
 * The state machine of refresh tokens.
 *
 * @param graceSeconds - how long after its replacement a token is only refused
 * @see specification, "Session and refresh token"; RFC 9700, section 4.14.2
 */
export function judgeRefresh(token: PresentedRefreshToken, nowSeconds: number, graceSeconds: number): RefreshVerdict {
  if (token.state !== 'active' || nowSeconds >= token.expiresAtSeconds) return 'ended'
  if (token.replacedAtSeconds === undefined) return 'rotate'
  return nowSeconds - token.replacedAtSeconds > graceSeconds ? 'reused' : 'replaced'
}
