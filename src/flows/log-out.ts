import type { Parts } from './parts.js'

/**
 * Ends the session of an access token, and no other session of the user. Its refresh token is dead at once, the access
 * token stays good until its `exp`. Ending a session twice, or that of a token without one, changes nothing.
 *
 * @throws DidAuthError ERR_STORE
 * @see specification, "Session and refresh token"
 */
export async function logOut(
  parts: Pick<Parts, 'settings' | 'clock' | 'store'>,
  sessionId: string | undefined
): Promise<void> {
  if (sessionId === undefined) return
  await parts.store.endSession(parts.settings.serviceUrl, sessionId, 'loggedOut', parts.clock.nowSeconds())
}
