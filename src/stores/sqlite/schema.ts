import type { SqlConnection } from './sqlite-engine.js'

/** Version of the tables that this package writes. */
export const SCHEMA_VERSION = 1

/** The table that holds the version of the others. A new file has no row in it. */
export const NUMBERS_TABLE = `CREATE TABLE IF NOT EXISTS did_auth_numbers (
  name TEXT NOT NULL PRIMARY KEY,
  number INTEGER NOT NULL
) STRICT`

/**
 * Sessions. Refreshing a session should touch no index: `sweep_day` and `refreshed_day` change once a day, and the hash
 * of the refresh token is in none. `STRICT`, because SQLite would else keep a text where a number belongs.
 *
 * `sweep_day`: the first day (since the Unix epoch) on which it is expired from the beginning on. `refreshed_day`: the day
 * of its last refresh, NULL when there was none; NULL sorts first, so the same index finds those that are evicted first.
 */
export const SESSION_TABLES: readonly string[] = [
  `CREATE TABLE did_auth_sessions (
    id INTEGER PRIMARY KEY,
    service TEXT NOT NULL,
    session_id TEXT NOT NULL,
    canonical_did TEXT NOT NULL,
    did TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('active', 'loggedOut', 'revoked')),
    token_claims TEXT,
    refresh_token_hash TEXT NOT NULL,
    replaced BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    rotated_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    sweep_day INTEGER NOT NULL,
    refreshed_day INTEGER,
    UNIQUE (session_id, service)
  ) STRICT`,
  'CREATE INDEX did_auth_sessions_by_user ON did_auth_sessions (canonical_did, service, id)',
  'CREATE INDEX did_auth_sessions_by_end ON did_auth_sessions (sweep_day)',
  'CREATE INDEX did_auth_sessions_by_refresh ON did_auth_sessions (refreshed_day, id)'
]

/** Uses of challenges. */
export const CHALLENGE_TABLES: readonly string[] = [
  `CREATE TABLE did_auth_challenge_uses (
    id INTEGER PRIMARY KEY,
    service TEXT NOT NULL,
    canonical_did TEXT NOT NULL,
    challenge_window INTEGER NOT NULL,
    log_in INTEGER NOT NULL,
    sign_up INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    UNIQUE (canonical_did, challenge_window, service)
  ) STRICT`,
  'CREATE INDEX did_auth_challenge_uses_by_end ON did_auth_challenge_uses (expires_at)'
]

/** `usesForgottenUntil`: end of the newest window whose uses were deleted. `pings`: a row that a ping can write. */
export const FIRST_NUMBERS = `INSERT INTO did_auth_numbers (name, number)
  VALUES ('version', ${String(SCHEMA_VERSION)}), ('usesForgottenUntil', 0), ('pings', 0)`

const SECONDS_A_DAY = 86_400

/** The first day that begins after a moment. */
export function sweepDay(expiresAtSeconds: number): number {
  return Math.ceil(expiresAtSeconds / SECONDS_A_DAY)
}

/** The day that a moment lies in. */
export function dayOf(seconds: number): number {
  return Math.floor(seconds / SECONDS_A_DAY)
}

/** Runs work in a transaction that has the write lock from its beginning on. */
export function inTransaction<T>(connection: Pick<SqlConnection, 'exec'>, work: () => T): T {
  connection.exec('BEGIN IMMEDIATE')
  try {
    const result = work()
    connection.exec('COMMIT')
    return result
  } catch (error) {
    rollBack(connection)
    throw error
  }
}

/** Rolls a transaction back. Some failures, such as a full disk, have rolled it back already. */
export function rollBack(connection: Pick<SqlConnection, 'exec'>): void {
  try {
    connection.exec('ROLLBACK')
  } catch (error) {
    if (!String(error).includes('no transaction is active')) throw error
  }
}
