import { createHash } from 'node:crypto'
import type { Buffer } from 'node:buffer'
import { canonicalDid } from '../../protocol/did.js'

/**
 * Tables of sessions and of uses of challenges in PostgreSQL. `translateToSqlite` derives those of SQLite.
 *
 * Refreshing a session touches an index at most once a day, when one of two columns changes: `sweep_day`, the first day
 * (since the Unix epoch) on which a session is expired from the beginning on, and `refreshed_day`, the day of its last
 * refresh. That is NULL when there was none, and sorts first, so the same index finds those that are evicted first.
 * `number`: the order of creation. Claims are text, because jsonb refuses `\u0000`. Pages of sessions are half empty,
 * so that the next version of a row stays on its page.
 *
 * `did_auth_numbers`: `usesForgottenUntil` is the end of the newest closed window, `pings` a row that a ping can write.
 */
export const TABLES: readonly string[] = [
  `CREATE TABLE did_auth_sessions (
    session_key bytea PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL,
    user_key bytea NOT NULL,
    did text NOT NULL,
    state smallint NOT NULL DEFAULT 0,
    token_claims text,
    token_hash bytea NOT NULL,
    replaced bytea NOT NULL DEFAULT '',
    created_at bigint NOT NULL,
    rotated_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    sweep_day int NOT NULL,
    refreshed_day int,
    number bigint GENERATED ALWAYS AS IDENTITY
  ) WITH (fillfactor = 50)`,
  `CREATE TABLE did_auth_challenge_uses (
    user_key bytea NOT NULL,
    challenge_window bigint NOT NULL,
    log_in int NOT NULL,
    sign_up int NOT NULL,
    last_use bytea NOT NULL,
    expires_at bigint NOT NULL,
    PRIMARY KEY (user_key, challenge_window)
  )`,
  `CREATE TABLE did_auth_numbers (
    name text COLLATE "C" PRIMARY KEY,
    number bigint NOT NULL,
    changed_at bigint NOT NULL DEFAULT 0
  )`,
  'CREATE INDEX did_auth_sessions_by_user ON did_auth_sessions (user_key, number)',
  'CREATE INDEX did_auth_sessions_by_end ON did_auth_sessions (sweep_day)',
  'CREATE INDEX did_auth_sessions_by_refresh ON did_auth_sessions (refreshed_day NULLS FIRST, number)',
  'CREATE INDEX did_auth_challenge_uses_by_end ON did_auth_challenge_uses (expires_at)',
  `INSERT INTO did_auth_numbers (name, number) VALUES ('usesForgottenUntil', 0), ('pings', 0)`
]

const KEY_BYTES = 16

/** Computes the key of a row, 16 bytes of SHA-256 over service and name: no service can name a row of another. */
export function computeRowKey(service: string, name: string): Buffer {
  // A serviceUrl has no line feed.
  return createHash('sha256').update(`${service}\n${name}`).digest().subarray(0, KEY_BYTES)
}

/** Computes the key of a user, whatever the spelling of the DID. */
export function computeUserKey(service: string, did: string): Buffer {
  return computeRowKey(service, canonicalDid(did))
}
