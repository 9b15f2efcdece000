import type { EndRecord } from '../ports.js'
import type { Parts } from './parts.js'

type ListSettings = Pick<Parts['settings'], 'listedSeconds'>

/**
 * Ends a session. With the option `endedSessions`, the store records its end.
 * @returns whether the session was active
 * @throws DidAuthError ERR_STORE
 */
export async function endSession(
  { settings, clock, store }: Pick<Parts, 'clock' | 'store'> & { settings: ListSettings & { serviceUrl: string } },
  sessionId: string,
  state: 'loggedOut' | 'revoked'
): Promise<boolean> {
  const now = clock.nowSeconds()
  return store.endSession(settings.serviceUrl, sessionId, state, now, computeListUntil(settings, now))
}

/** Returns the time until which a session that ends now is listed, in seconds; undefined without `endedSessions`. */
export function computeListUntil({ listedSeconds }: ListSettings, nowSeconds: number): EndRecord {
  return listedSeconds === undefined ? undefined : nowSeconds + listedSeconds
}
