import type { Settings } from '../config/settings.js'
import { DidAuthError, type DidAuthErrorCode } from '../errors.js'
import type { AuthenticatedUser } from '../ports.js'
import { canonicalDid } from '../protocol/did.js'
import type { Session } from '../protocol/session.js'
import { authenticate } from './authenticate.js'
import { findPresentedSession } from './find-presented-session.js'
import type { Parts } from './parts.js'

/** What a client may know of its own session. Times in seconds. */
export interface OwnSession {
  did: string
  sessionId: string | undefined
  /** When its access token expires, since the Unix epoch; now, where only the refresh token is good. */
  expiresAt: number
  expiresInSeconds: number
}

/** A session in the list of a user. Times in seconds since the Unix epoch. */
export interface ListedSession {
  sessionId: string
  createdAt: number
  refreshedAt: number
  expiresAt: number
  /** Whether it is the session of the request that asks. */
  isCurrent: boolean
}

/** Refusals of a token: here each means that there is no session. */
const NO_SESSION: ReadonlySet<DidAuthErrorCode> = new Set([
  'ERR_ACCESS_TOKEN_MISSING',
  'ERR_ACCESS_TOKEN',
  'ERR_ACCESS_TOKEN_EXPIRED',
  'ERR_DUPLICATE_COOKIE',
  'ERR_REFRESH_TOKEN'
])

/**
 * The session of the tokens that a request carries; undefined where neither is good.
 *
 * @param tokens - read only when they are needed, because reading may refuse
 * @throws DidAuthError ERR_SIGNER, ERR_STORE
 */
export async function readOwnSession(
  parts: Pick<Parts, 'settings' | 'clock' | 'curve' | 'serviceKey' | 'verifiedTokens' | 'store'>,
  tokens: { accessToken: () => string | undefined; refreshToken: () => Promise<unknown> }
): Promise<OwnSession | undefined> {
  const byAccessToken = async (): Promise<OwnSession> => {
    const { claims } = await authenticate(parts, tokens.accessToken())
    const expiresInSeconds = claims.exp - parts.clock.nowSeconds()
    return { did: claims.sub, sessionId: claims.sid, expiresAt: claims.exp, expiresInSeconds }
  }
  const byRefreshToken = async (): Promise<OwnSession | undefined> => {
    const { presented, session } = await findPresentedSession(parts, await tokens.refreshToken())
    const nowSeconds = parts.clock.nowSeconds()
    const { did, sessionId, state, refreshTokenHash, createdAtSeconds, expiresAtSeconds } = session
    const endSeconds = Math.min(expiresAtSeconds, createdAtSeconds + parts.settings.absoluteSessionSeconds)
    const isGood = state === 'active' && refreshTokenHash === presented.hash && nowSeconds < endSeconds
    return isGood ? { did, sessionId, expiresAt: nowSeconds, expiresInSeconds: 0 } : undefined
  }
  return (await unlessRefused(byAccessToken)) ?? unlessRefused(byRefreshToken)
}

async function unlessRefused<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read()
  } catch (error) {
    if (error instanceof DidAuthError && NO_SESSION.has(error.code)) return undefined
    throw error
  }
}

/**
 * The active sessions of a user, the newest first. An absolute end that was configured after a login counts.
 *
 * @param did - in any spelling
 * @throws DidAuthError ERR_STORE
 */
export async function listSessions(
  { settings, clock, store }: Pick<Parts, 'clock' | 'store'> & { settings: Settings },
  did: string
): Promise<Session[]> {
  const nowSeconds = clock.nowSeconds()
  const sessions = await store.listSessions(settings.serviceUrl, canonicalDid(did), nowSeconds)
  return sessions
    .map((session) => {
      const endSeconds = session.createdAtSeconds + settings.absoluteSessionSeconds
      return { ...session, expiresAtSeconds: Math.min(session.expiresAtSeconds, endSeconds) }
    })
    .filter(({ expiresAtSeconds }) => nowSeconds < expiresAtSeconds)
}

/**
 * The active sessions of the caller, the newest first, as a client may know them.
 *
 * @throws DidAuthError ERR_STORE
 */
export async function listOwnSessions(
  parts: Pick<Parts, 'settings' | 'clock' | 'store'>,
  user: AuthenticatedUser
): Promise<ListedSession[]> {
  const sessions = await listSessions(parts, user.canonicalDid)
  return sessions.map(({ sessionId, createdAtSeconds, rotatedAtSeconds, expiresAtSeconds }) => ({
    sessionId,
    createdAt: createdAtSeconds,
    refreshedAt: rotatedAtSeconds,
    expiresAt: expiresAtSeconds,
    isCurrent: sessionId === user.claims.sid
  }))
}

/**
 * Revokes a session of the user who asks. Revoking one twice changes nothing.
 *
 * @throws DidAuthError ERR_SESSION_NOT_FOUND when the user has no such session, ERR_STORE
 */
export async function revokeOwnSession(
  { settings, clock, store, report }: Pick<Parts, 'settings' | 'clock' | 'store' | 'report'>,
  user: AuthenticatedUser,
  sessionId: string
): Promise<void> {
  const { serviceUrl } = settings
  const session = await store.findSession(serviceUrl, sessionId)
  if (session === undefined || canonicalDid(session.did) !== user.canonicalDid) {
    throw new DidAuthError('ERR_SESSION_NOT_FOUND')
  }
  if (await store.endSession(serviceUrl, sessionId, 'revoked', clock.nowSeconds())) {
    report({ type: 'session-revoked', did: session.did, sessionId })
  }
}
