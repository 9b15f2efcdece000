import type { Parts } from './parts.js'

/** Ends a session now. @returns whether it was active @throws DidAuthError ERR_STORE */
export function endSession(
  { settings, clock, store }: Pick<Parts, 'clock' | 'store'> & { settings: { serviceUrl: string } },
  sessionId: string,
  state: 'loggedOut' | 'revoked'
): Promise<boolean> {
  return store.endSession(settings.serviceUrl, sessionId, state, clock.nowSeconds())
}
