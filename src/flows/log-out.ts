import { findPresentedSession } from './find-presented-session.js'
import type { Parts } from './parts.js'

type LogOutParts = Pick<Parts, 'settings' | 'clock' | 'curve' | 'store'>

/**
 * Ends the session of an access token, and no other session of the user. Its refresh token ends at once, the access
 * token stays good until its `exp`. Ending a session twice, or that of a token without one, changes nothing.
 *
 * @throws DidAuthError ERR_STORE
 * @see specification, "Session and refresh token"
 */
export async function logOut(parts: LogOutParts, sessionId: string | undefined): Promise<void> {
  if (sessionId === undefined) return
  await parts.store.endSession(parts.settings.serviceUrl, sessionId, 'loggedOut', parts.clock.nowSeconds())
}

/**
 * Ends the session of a refresh token, current or replaced: for a client whose access token has expired.
 *
 * @param refreshToken - as received, of any type
 * @throws DidAuthError ERR_REFRESH_TOKEN, ERR_STORE
 */
export async function logOutByRefreshToken(parts: LogOutParts, refreshToken: unknown): Promise<void> {
  const { session } = await findPresentedSession(parts, refreshToken)
  await logOut(parts, session.sessionId)
}
