import { Buffer } from 'node:buffer'
import type { JsonObject } from '../../protocol/json.js'
import type { Session, StoredSession } from '../../protocol/session.js'
import { parseReplacedTokens } from '../replaced-tokens.js'
import type { PostgresRow } from './postgres-pool.js'

/** States by their number in a row. */
export const STATES = ['active', 'loggedOut', 'revoked'] as const

/** The columns that {@link parseSession} reads. */
export const SESSION_COLUMNS = 'session_id, did, state, token_claims, created_at, rotated_at, expires_at'

/** The columns that {@link parseStoredSession} reads: as text, since a pool of the user's may read bytes as it likes. */
export const STORED_COLUMNS = `${SESSION_COLUMNS}, pg_catalog.encode(token_hash, 'base64') AS token_hash,
  pg_catalog.encode(replaced, 'base64') AS replaced`

/** The session of a row. */
export function parseSession(row: PostgresRow): Session {
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

/** The session of a row, with its refresh tokens. */
export function parseStoredSession(row: PostgresRow): StoredSession {
  return {
    ...parseSession(row),
    refreshTokenHash: Buffer.from(String(row.token_hash), 'base64').toString('base64url'),
    // A refresh with the current token, which is the usual one, does not ask for them.
    get replacedTokens() {
      return parseReplacedTokens(Buffer.from(String(row.replaced), 'base64'))
    }
  }
}
