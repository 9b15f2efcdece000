import type { Store } from '../../ports.js'
import { SqliteStore, type SqliteStoreOptions } from './sqlite-store.js'

/**
 * A store in one SQLite file, for one process or for several on one machine. Node has SQLite built in from 22.13 on;
 * before, the package better-sqlite3 is needed.
 *
 * What a login, refresh or logout has been answered survives a crash, and the loss of power too. Refresh tokens are in
 * the file only as hashes. A new file is readable by its owner alone. Quotas lie in memory: each process counts its own,
 * and from zero when it starts. The work is done in a thread, which ends with `close()`.
 *
 * @param file - path of the database file, or `:memory:`. Within a process the file is the store's alone: another copy of
 *   SQLite that opens it there, as better-sqlite3 beside Node's own, would drop the store's locks when it closes the file
 * @throws Error at once when there is no SQLite, the file cannot be opened, or a later version of this package wrote it
 * @example
 * ```ts
 * setupDidAuth(app, { ...config, store: sqliteStore('./auth.db') })
 * ```
 */
export function sqliteStore(file: string, options?: SqliteStoreOptions): Store {
  return new SqliteStore(file, options)
}

// The parts of the store, for tables of one's own in a thread as the servers have theirs: `openSqliteConnection` and
// `GroupCommit` in the thread, `startSqliteWorker` and `SqliteWorkerClient` on the other side.
export { GroupCommit } from './group-commit.js'
export type { Outcomes, Request, Verbs } from './group-commit.js'
export { rollBack } from './schema.js'
export { chooseEngine as chooseSqliteEngine, openConnection as openSqliteConnection } from './sqlite-engine.js'
export type { ConnectionOptions, EngineName, SqlConnection, SqlRow, SqlStatement, SqlValue } from './sqlite-engine.js'
export { isDamaged, sqliteCode } from './sqlite-error.js'
export { startWorker as startSqliteWorker } from './start-worker.js'
export { WorkerClient as SqliteWorkerClient } from './worker-client.js'
export type { WorkerClientOptions } from './worker-client.js'
export type { SqliteStoreOptions } from './sqlite-store.js'
export { SweepClock } from '../sweep-clock.js'
export type * from '../port-types.js'
