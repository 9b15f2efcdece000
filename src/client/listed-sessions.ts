import { PROTOCOL } from './error-codes.js'
import { DidAuthClientError } from './errors.js'

/** One of the user's sessions, times in whole seconds. */
export interface ListedSession {
  readonly sessionId: string
  readonly createdAt: number
  readonly refreshedAt: number
  readonly expiresAt: number
  readonly isCurrent: boolean
}

/** @throws DidAuthClientError PROTOCOL when it is no list */
export function parseSessions(list: unknown): ListedSession[] {
  if (!Array.isArray(list)) throw new DidAuthClientError(PROTOCOL, { message: 'No sessions' })
  return list as ListedSession[]
}
