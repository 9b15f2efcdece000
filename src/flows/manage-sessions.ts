import type { Settings } from '../config/settings.js'
import { DidAuthError, type DidAuthErrorCode } from '../errors.js'
import type { AuthenticatedUser } from '../ports.js'
import { findBoundKey } from '../protocol/device-proof.js'
import { canonicalDid } from '../protocol/did.js'
import { endOfSession, type Session } from '../protocol/session.js'
import { parseAccountId } from '../protocol/siwe-message.js'
import { authenticate } from './authenticate.js'
import { endSession } from './end-session.js'
import type { Parts } from './parts.js'
import { findPresentedSession } from './tokens.js'

type SessionParts = Pick<Parts, 'settings' | 'clock' | 'store'>
type LogoutParts = SessionParts & Pick<Parts, 'report'>

/**
 * Logs out the session of an access token, and no other session of the user. The refresh token is invalid at once; the
 * access token stays valid until its `exp`, unless services read the list of ended sessions. It changes nothing if the
 * session has ended or the token has none.
 * @throws DidAuthError ERR_STORE
 * @see specification, "Session and refresh token"
 */
export async function logOut(parts: LogoutParts, sessionId: string | undefined, did: string): Promise<void> {
  if (sessionId === undefined) return
  if (await endSession(parts, sessionId, 'loggedOut')) parts.report?.({ type: 'logout', did, sessionId })
}

/** Logs out a client whose access token has expired. @throws DidAuthError ERR_REFRESH_TOKEN, ERR_STORE */
export async function logOutByRefreshToken(parts: LogoutParts, refreshToken: unknown): Promise<void> {
  const { session } = await findPresentedSession(parts, refreshToken)
  await logOut(parts, session.sessionId, session.did)
}

/** Refusals of tokens. A request with one of them has no session. */
const NO_SESSION: ReadonlySet<DidAuthErrorCode> = new Set([
  'ERR_ACCESS_TOKEN_MISSING',
  'ERR_ACCESS_TOKEN',
  'ERR_ACCESS_TOKEN_EXPIRED',
  'ERR_DUPLICATE_COOKIE',
  'ERR_REFRESH_TOKEN'
])

/**
 * Describes the session of the tokens in a request, with times in seconds. `expiresAt` is the expiry of the access
 * token, or now if only the refresh token is valid. Returns undefined if neither is valid.
 * @throws DidAuthError ERR_SIGNER, ERR_STORE
 */
export async function readOwnSession(
  parts: SessionParts & Pick<Parts, 'curve' | 'serviceKey' | 'tokenCurve' | 'verifiedTokens'>,
  tokens: { accessToken: () => string | undefined; refreshToken: () => string | undefined }
): Promise<object | undefined> {
  const byAccessToken = async (): Promise<object> => {
    const { claims } = await authenticate(parts, tokens.accessToken())
    const expiresInSeconds = claims.exp - parts.clock.nowSeconds()
    const account = parseAccountId(claims.acct)
    const { sub: did, sid: sessionId, exp: expiresAt } = claims
    return { did, ...account, sessionId, expiresAt, expiresInSeconds, ...describeBinding(claims) }
  }
  const byRefreshToken = async (): Promise<object | undefined> => {
    const { presented, session } = await findPresentedSession(parts, tokens.refreshToken())
    const nowSeconds = parts.clock.nowSeconds()
    const { did, sessionId, state, refreshTokenHash, tokenClaims } = session
    const isInTime = nowSeconds < endOfSession(session, parts.settings.absoluteSessionSeconds)
    const isValid = state === 'active' && refreshTokenHash === presented.hash && isInTime
    const account = parseAccountId(tokenClaims?.acct)
    const described = { did, ...account, sessionId, expiresAt: nowSeconds, expiresInSeconds: 0 }
    return isValid ? { ...described, ...describeBinding(tokenClaims) } : undefined
  }
  return (await ignoreRefusal(byAccessToken)) ?? ignoreRefusal(byRefreshToken)
}

/** Returns `isDeviceBound` of a session that is bound to a device, and nothing for any other session. */
function describeBinding(claims: Readonly<Record<string, unknown>> | undefined): { isDeviceBound?: true } {
  return findBoundKey(claims) === undefined ? {} : { isDeviceBound: true }
}

async function ignoreRefusal<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read()
  } catch (error) {
    if (error instanceof DidAuthError && NO_SESSION.has(error.code)) return undefined
    throw error
  }
}

/**
 * Lists a user's active sessions, the newest first. It applies the current `absoluteSessionDurationInHours` to older
 * sessions as well.
 * @throws DidAuthError ERR_STORE
 */
export async function listSessions(
  { settings, clock, store }: Pick<Parts, 'clock' | 'store'> & { settings: Settings },
  did: string
): Promise<Session[]> {
  const nowSeconds = clock.nowSeconds()
  const sessions = await store.listSessions(settings.serviceUrl, canonicalDid(did), nowSeconds)
  return sessions
    .map((session) => ({ ...session, expiresAtSeconds: endOfSession(session, settings.absoluteSessionSeconds) }))
    .filter(({ expiresAtSeconds }) => nowSeconds < expiresAtSeconds)
}

/** Lists the caller's active sessions for clients, the newest first, without claims. @throws DidAuthError ERR_STORE */
export async function listOwnSessions(parts: SessionParts, user: AuthenticatedUser): Promise<object[]> {
  const sessions = await listSessions(parts, user.canonicalDid)
  return sessions.map(({ sessionId, createdAtSeconds, rotatedAtSeconds, expiresAtSeconds, description }) => ({
    sessionId,
    createdAt: createdAtSeconds,
    refreshedAt: rotatedAtSeconds,
    expiresAt: expiresAtSeconds,
    isCurrent: sessionId === user.claims.sid,
    description
  }))
}

/**
 * Revokes one of the caller's sessions. Idempotent.
 * @throws DidAuthError ERR_SESSION_NOT_FOUND, also for a session of another user; ERR_STORE
 */
export async function revokeOwnSession(
  parts: SessionParts & Pick<Parts, 'report'>,
  user: AuthenticatedUser,
  sessionId: string
): Promise<void> {
  const session = await parts.store.findSession(parts.settings.serviceUrl, sessionId)
  if (session === undefined || canonicalDid(session.did) !== user.canonicalDid) {
    throw new DidAuthError('ERR_SESSION_NOT_FOUND')
  }
  if (await endSession(parts, sessionId, 'revoked')) {
    parts.report?.({ type: 'session-revoked', did: session.did, sessionId })
  }
}
