import { MAX_REPLACED_TOKENS, MAX_SESSIONS_PER_DID } from '../../protocol/session.js'
import type { PostgresStatement } from './postgres-pool.js'
import { SESSION_COLUMNS, STORED_COLUMNS } from './session-row.js'

const TABLE = 'did_auth_sessions'
const OF_SESSION = 'session_id = $1 AND service = $2'
const OF_USER = 'user_key = $1 AND service = $2'

// As `addReplacedToken` packs them: the first 18 bytes of the hash, then the time in 6.
const REPLACED = `substring(substring(token_hash FOR 18) || substring(pg_catalog.int8send($6::bigint) FROM 3) || replaced
  FOR ${String(24 * MAX_REPLACED_TOKENS)})`

const statement = (name: string, text: string): PostgresStatement => ({ name: `did_auth_session_${name}`, text })

/**
 * The statements of sessions. Each is a transaction of its own. One that waited for the row of a session looks at it again
 * afterwards, so that of many rotations one finds the hash that it presents.
 *
 * Statements that delete skip rows that others have locked, so that no two wait for each other.
 */
export const SESSION_STATEMENTS = {
  // The same session again is the first attempt, whose answer was lost.
  insert: statement(
    'insert',
    `INSERT INTO ${TABLE} AS known (session_id, service, user_key, did, token_claims, token_hash, created_at, rotated_at,
      expires_at, sweep_day) VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9)
    ON CONFLICT (session_id, service) DO UPDATE SET token_hash = excluded.token_hash
      WHERE known.token_hash = excluded.token_hash`
  ),
  trim: statement(
    'trim',
    `DELETE FROM ${TABLE} WHERE ctid = ANY(ARRAY(
      SELECT one.ctid FROM ${TABLE} one JOIN (
        SELECT session_id, service FROM ${TABLE} WHERE ${OF_USER}
        ORDER BY expires_at <= $3, state <> 0, number DESC OFFSET ${String(MAX_SESSIONS_PER_DID)}
      ) surplus USING (session_id, service)
      FOR UPDATE OF one SKIP LOCKED))`
  ),
  // An active one is counted. What ended is deleted as well, and another session with it.
  evict: statement(
    'evict',
    `WITH evicted AS (
      DELETE FROM ${TABLE} WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM ${TABLE} WHERE NOT (${OF_SESSION})
        ORDER BY refreshed_day NULLS FIRST, number LIMIT 1 FOR UPDATE SKIP LOCKED))
      RETURNING state, expires_at)
    SELECT FROM evicted WHERE state = 0 AND expires_at > $3`
  ),
  find: statement('find', `SELECT ${STORED_COLUMNS} FROM ${TABLE} WHERE ${OF_SESSION}`),
  rotate: statement(
    'rotate',
    `UPDATE ${TABLE} SET token_hash = $4, replaced = ${REPLACED}, token_claims = $5, rotated_at = $6, expires_at = $7,
      sweep_day = $8, refreshed_day = $9
    WHERE ${OF_SESSION} AND token_hash = $3 AND state = 0 AND expires_at > $6`
  ),
  revoke: statement('revoke', `UPDATE ${TABLE} SET state = 2 WHERE ${OF_SESSION} AND state = 0`),
  end: statement('end', `UPDATE ${TABLE} SET state = $3 WHERE ${OF_SESSION} AND state = 0 AND expires_at > $4`),
  revokeAll: statement(
    'revoke_all',
    `UPDATE ${TABLE} SET state = 2 WHERE ${OF_USER} AND state = 0 AND expires_at > $3`
  ),
  list: statement(
    'list',
    `SELECT ${SESSION_COLUMNS} FROM ${TABLE} WHERE ${OF_USER} AND state = 0 AND expires_at > $3 ORDER BY number DESC`
  )
} as const
