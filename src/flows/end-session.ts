import type { Settings } from '../config/settings.js'
import type { Parts } from './parts.js'

/**
 * Ends a session. With the option `endedSessions`, the store records its end.
 * @returns whether the session was active
 * @throws DidAuthError ERR_STORE
 */
export async function endSession(
  { settings, clock, store }: Pick<Parts, 'clock' | 'store'> & { settings: Settings },
  sessionId: string,
  state: 'loggedOut' | 'revoked'
): Promise<boolean> {
  const { serviceUrl, listedSeconds } = settings
  const nowSeconds = clock.nowSeconds()
  return store.endSession(serviceUrl, sessionId, state, nowSeconds, listedSeconds && nowSeconds + listedSeconds)
}
