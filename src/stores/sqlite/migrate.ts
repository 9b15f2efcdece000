import { addReplacedToken } from '../replaced-tokens.js'
import { FIRST_NUMBERS, SESSION_TABLES } from './schema.js'
import type { SqlConnection } from './sqlite-engine.js'

/** Sessions whose replaced tokens are read at a time: a file of version 1 may hold millions. */
const SESSIONS_AT_A_TIME = 1_000

/**
 * Brings tables of version 1 up to date, within the caller's transaction. Sessions keep their ids, states and claims;
 * their tokens, which do not name a session, can be looked up by hash. Uses of challenges stay, quotas begin again.
 */
export function migrateFromVersion1(connection: SqlConnection): void {
  connection.exec('ALTER TABLE did_auth_sessions RENAME TO did_auth_sessions_1')
  connection.exec('DROP INDEX did_auth_sessions_by_user; DROP INDEX did_auth_sessions_by_end')
  for (const text of SESSION_TABLES) connection.exec(text)
  connection.exec(`INSERT INTO did_auth_sessions
    SELECT id, service, session_id, canonical_did, did, state, token_claims, refresh_token_hash, x'', created_at,
      rotated_at, expires_at, (expires_at + 86399) / 86400, CASE WHEN rotations > 0 THEN rotated_at / 86400 END
    FROM did_auth_sessions_1 ORDER BY id`)
  packReplacedTokens(connection)
  connection.exec(`INSERT INTO did_auth_migrated_tokens
    SELECT refresh_token_hash, service, id FROM did_auth_sessions_1`)
  connection.exec(`INSERT OR IGNORE INTO did_auth_migrated_tokens
    SELECT refresh_token_hash, service, session FROM did_auth_replaced_tokens
    WHERE session IN (SELECT id FROM did_auth_sessions)`)
  connection.exec('DROP TABLE did_auth_replaced_tokens; DROP TABLE did_auth_sessions_1; DROP TABLE did_auth_quotas')
  connection.exec(`DELETE FROM did_auth_numbers; ${FIRST_NUMBERS}`)
}

function packReplacedTokens(connection: SqlConnection): void {
  const nextSessions = connection.prepare(`SELECT DISTINCT session FROM did_auth_replaced_tokens
    WHERE session > ? ORDER BY session LIMIT ${String(SESSIONS_AT_A_TIME)}`)
  const tokensOf = connection.prepare(`SELECT refresh_token_hash, replaced_at FROM did_auth_replaced_tokens
    WHERE session = ? ORDER BY rotation`)
  const setReplaced = connection.prepare('UPDATE did_auth_sessions SET replaced = ? WHERE id = ?')
  for (let last = -1; ;) {
    const sessions = nextSessions.all(last).map((row) => Number(row.session))
    for (const session of sessions) {
      let packed: Uint8Array = new Uint8Array()
      for (const token of tokensOf.all(session)) {
        packed = addReplacedToken(packed, String(token.refresh_token_hash), Number(token.replaced_at))
      }
      setReplaced.run(packed, session)
      last = session
    }
    if (sessions.length < SESSIONS_AT_A_TIME) return
  }
}
