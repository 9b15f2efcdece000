import type { Store } from '../../ports.js'
import { openSqliteStore, type SqliteStoreOptions } from './sqlite-store.js'

/**
 * A store in one SQLite file, for one process or for several on one machine. Node has SQLite built in from 22.13 on;
 * before, the package better-sqlite3 is needed.
 *
 * What a login, refresh or logout has been answered survives a crash, and the loss of power too. Refresh tokens are in
 * the file only as hashes. A new file is readable by its owner alone. Quotas are counted in memory, by each process. The
 * work is done in a thread, which ends with `close()`.
 *
 * @param file - path of the database file, or `:memory:`. Within a process the file is the store's alone: another copy of
 *   SQLite that opens it there, as better-sqlite3 beside Node's own, would drop the store's locks when it closes the file
 * @throws Error at once when there is no SQLite, the file cannot be opened, or another version of this package wrote it
 * @example
 * ```ts
 * setupDidAuth(app, { ...config, store: sqliteStore('./auth.db') })
 * ```
 */
export function sqliteStore(file: string, options?: SqliteStoreOptions): Store {
  return openSqliteStore(file, options)
}

export type { SqliteStoreOptions } from './sqlite-store.js'
export type * from '../port-types.js'
