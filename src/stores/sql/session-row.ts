import { Buffer } from 'node:buffer'
import type { JsonObject } from '../../protocol/json.js'
import type { Session, StoredSession } from '../../protocol/session.js'
import type { Dialect } from './dialect.js'
import { parseReplacedTokens } from '../replaced-tokens.js'

/** States by their number in a row. */
export const STATES = ['active', 'loggedOut', 'revoked'] as const

/** A session as a statement answers it, and as it crosses threads: as JSON. PostgreSQL may answer numbers as text. */
export interface SessionRow {
  readonly session_id: string
  readonly did: string
  readonly state: number
  /** JSON, or null. */
  readonly token_claims: string | null
  readonly created_at: number | string
  readonly rotated_at: number | string
  readonly expires_at: number | string
}

/** A {@link SessionRow} with its refresh tokens, as hexadecimal digits. */
export interface StoredSessionRow extends SessionRow {
  readonly token_hash: string
  readonly replaced: string
}

/** The columns of a {@link SessionRow}. */
export const SESSION_COLUMNS = 'session_id, did, state, token_claims, created_at, rotated_at, expires_at'

/** The columns of a {@link StoredSessionRow}. */
export function storedColumns({ hex }: Dialect): string {
  return `${SESSION_COLUMNS}, ${hex('token_hash')} AS token_hash, ${hex('replaced')} AS replaced`
}

/** The session of a row. */
export function parseSession(row: SessionRow): Session {
  return {
    sessionId: row.session_id,
    did: row.did,
    state: STATES[row.state] ?? 'revoked',
    tokenClaims: row.token_claims === null ? undefined : (JSON.parse(row.token_claims) as JsonObject),
    createdAtSeconds: Number(row.created_at),
    rotatedAtSeconds: Number(row.rotated_at),
    expiresAtSeconds: Number(row.expires_at)
  }
}

/** The session of a row, with its refresh tokens. */
export function parseStoredSession(row: StoredSessionRow): StoredSession {
  return {
    ...parseSession(row),
    refreshTokenHash: Buffer.from(row.token_hash, 'hex').toString('base64url'),
    // A refresh with the current token, which is the usual one, does not ask for them.
    get replacedTokens() {
      return parseReplacedTokens(Buffer.from(row.replaced, 'hex'))
    }
  }
}

/** Claims as they are stored: in ASCII, which a database of any encoding takes. */
export function toJson(claims: JsonObject | undefined): string | null {
  const escape = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return claims === undefined ? null : JSON.stringify(claims).replace(/[\u0080-\uffff]/g, escape)
}
