import { Buffer } from 'node:buffer'
import type { JsonObject } from '../../protocol/json.js'
import type { Session, StoredSession } from '../../protocol/session.js'
import { parseReplacedTokens } from '../replaced-tokens.js'
import type { SqlRow } from './sqlite-engine.js'

/** A session as it leaves the worker, which is as JSON. */
export interface SessionRow {
  readonly sessionId: string
  readonly did: string
  readonly state: Session['state']
  /** JSON, or null. */
  readonly tokenClaims: string | null
  readonly createdAtSeconds: number
  readonly rotatedAtSeconds: number
  readonly expiresAtSeconds: number
}

/** A {@link SessionRow} with its refresh tokens. */
export interface StoredSessionRow extends SessionRow {
  readonly refreshTokenHash: string
  /** As `addReplacedToken` packs them, in base64. */
  readonly replaced: string
}

/** The columns of a {@link SessionRow}. */
export const SESSION_COLUMNS = `session_id AS sessionId, did, state, token_claims AS tokenClaims,
  created_at AS createdAtSeconds, rotated_at AS rotatedAtSeconds, expires_at AS expiresAtSeconds`

/** The columns that a {@link StoredSessionRow} is made of; `replaced` is bytes yet. */
export const STORED_COLUMNS = `${SESSION_COLUMNS}, refresh_token_hash AS refreshTokenHash, replaced`

/** A row of the table as a session that leaves the worker. */
export function parseStoredRow(row: SqlRow): StoredSessionRow {
  const packed = Buffer.from(row.replaced as Uint8Array)
  return { ...(row as unknown as StoredSessionRow), replaced: packed.toString('base64') }
}

/** The session of a row. */
export function parseSession(row: SessionRow): Session {
  const { sessionId, did, state, tokenClaims, createdAtSeconds, rotatedAtSeconds, expiresAtSeconds } = row
  return {
    sessionId,
    did,
    state,
    tokenClaims: tokenClaims === null ? undefined : (JSON.parse(tokenClaims) as JsonObject),
    createdAtSeconds,
    rotatedAtSeconds,
    expiresAtSeconds
  }
}

/** The session of a row, with its refresh tokens. */
export function parseStoredSession(row: StoredSessionRow): StoredSession {
  return {
    ...parseSession(row),
    refreshTokenHash: row.refreshTokenHash,
    // A refresh with the current token, which is the usual one, does not ask for them.
    get replacedTokens() {
      return parseReplacedTokens(Buffer.from(row.replaced, 'base64'))
    }
  }
}
