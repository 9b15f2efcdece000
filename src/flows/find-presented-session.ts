import { DidAuthError } from '../errors.js'
import { isTokenOf, type StoredSession } from '../protocol/session.js'
import type { Parts } from './parts.js'
import { parseRefreshToken, type PresentedToken } from './refresh-token.js'

/** A refresh token that was presented, and the session that it belongs to. */
export interface PresentedSession {
  presented: PresentedToken
  session: StoredSession
}

/**
 * Finds the session that a refresh token belongs to, current or replaced, in whatever state.
 *
 * @param received - the received refresh token, of any type
 * @throws DidAuthError ERR_REFRESH_TOKEN when no session remembers it, ERR_STORE
 */
export async function findPresentedSession(
  parts: Pick<Parts, 'settings' | 'curve' | 'store'>,
  received: unknown
): Promise<PresentedSession> {
  const { store } = parts
  const { serviceUrl } = parts.settings
  const presented = parseRefreshToken(parts, received)
  if (presented === undefined) throw refused('form', typeof received)
  const session = await store.findSession(serviceUrl, presented.sessionId)
  if (session === undefined) throw refused('session', 'unknown')
  if (!isTokenOf(session, presented.hash)) throw refused('secret', 'unknown')
  return { presented, session }
}

function refused(check: string, got: string): DidAuthError {
  return new DidAuthError('ERR_REFRESH_TOKEN', { reason: { check, expected: 'a refresh token of a session', got } })
}
