import { Buffer } from 'node:buffer'
import type { JsonObject } from '../../protocol/json.js'
import type { Session, StoredSession } from '../../protocol/session.js'
import { createStoredSession } from '../replaced-tokens.js'
import type { SqlRow } from './query.js'

/** States of a session. A row stores the index. */
export const STATES = ['active', 'loggedOut', 'revoked'] as const

/** Parses a session from a row. PostgreSQL may return numbers as text. */
export function parseSession(row: SqlRow): Session {
  return {
    sessionId: String(row.session_id),
    did: String(row.did),
    state: STATES[Number(row.state)] ?? 'revoked',
    tokenClaims: typeof row.token_claims === 'string' ? (JSON.parse(row.token_claims) as JsonObject) : undefined,
    createdAtSeconds: Number(row.created_at),
    rotatedAtSeconds: Number(row.rotated_at),
    expiresAtSeconds: Number(row.expires_at)
  }
}

/** Parses a session with its refresh tokens from a row, in which tokens are hexadecimal digits. */
export function parseStoredSession(row: SqlRow): StoredSession {
  const hash = Buffer.from(String(row.token_hash), 'hex').toString('base64url')
  return createStoredSession(parseSession(row), hash, String(row.replaced), 'hex')
}
