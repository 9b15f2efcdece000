import type { SqliteDatabase } from '../adapters/sqlite-database.js'
import { SqliteStore, type SqliteStoreOptions } from '../adapters/sqlite-store.js'
import type { Store } from '../ports.js'

/**
 * A store in one SQLite file, for one process or for several on one machine. It needs the package better-sqlite3.
 *
 * What a login, refresh or logout has been answered survives a crash, and the loss of power too. Refresh tokens are in
 * the file only as hashes. A new file is readable by its owner alone.
 *
 * A Database that is given keeps its settings and is its giver's to close; for the same promise it needs
 * `journal_mode = WAL` and `synchronous = FULL`, as `openSqliteDatabase(file, 'FULL')` opens one. Its tables are called `did_auth_…`.
 *
 * @param file - path of the database file, or an open better-sqlite3 `Database`
 * @throws Error at once when better-sqlite3 is not installed, or the file cannot be opened
 * @example
 * ```ts
 * setupDidAuth(app, { ...config, store: sqliteStore('./auth.db') })
 * ```
 */
export function sqliteStore(file: string | SqliteDatabase, options?: SqliteStoreOptions): Store {
  return new SqliteStore(file, options)
}

export { openSqliteDatabase } from '../adapters/sqlite-database.js'
export type { SqliteDatabase, SqliteStatement } from '../adapters/sqlite-database.js'
export type { SqliteStoreOptions } from '../adapters/sqlite-store.js'
export type {
  ChallengeFlow,
  ChallengeUse,
  ChallengeUseKey,
  NewSession,
  QuotaCharge,
  QuotaState,
  Rotation,
  Store
} from '../ports.js'
export type { JsonObject, JsonValue } from '../protocol/json.js'
export type { RefreshVerdict, Session } from '../protocol/session.js'
