import type { Worker } from 'node:worker_threads'
import type { Store } from '../../ports.js'
import { createMemoryQuotas } from '../memory/memory-quotas.js'
import { sqliteDialect } from '../sql/dialect.js'
import { createMethods } from '../sql/query.js'
import { createSqlStore, type SweepTimes } from '../sql/sql-store.js'
import { STORE_READS, createStoreVerbs } from '../sql/store-verbs.js'
import { TABLES } from '../sql/tables.js'
import { prepareFile } from './prepare-tables.js'
import { chooseEngine, isFile, type EngineName } from './sqlite-engine.js'
import { startSqliteThreads } from './sqlite-thread.js'
import { startWorker } from './start-worker.js'
import type { ThreadDatabase, ThreadRole } from './thread-database.js'

/** Bounds of a SQLite store. */
export interface SqliteStoreOptions {
  /** Approximate maximum of sessions, checked every minute. Evicts never refreshed ones first. Default 10,000,000. */
  maxSessions?: number
  /** Approximate maximum of challenge uses. Beyond it, logins are refused until a window ends. Default 1,000,000. */
  maxChallengeUses?: number
  /** Maximum of quotas of each kind, in memory. Beyond it, the one that began first is deleted. Default 100,000. */
  maxQuotas?: number
}

/** Counting the rows of a large table takes a second. */
const SIZE_SECONDS = 60
/** All verbs wait for a deletion in the one thread: 1,000 sessions took it 120 to 240 ms, 200 take 25 to 70 ms. */
const SWEEP_ROWS = 200

/**
 * A store in one SQLite file, for one process or for several on one machine. Before Node 22.13, it needs the package
 * better-sqlite3.
 *
 * What a login, refresh or logout has been answered survives a crash, and the loss of power too. Refresh tokens are in
 * the file only as hashes. A new file is readable only by its owner. Quotas are counted in memory, by each process.
 * A thread writes, and another one reads while it does. They end with `close()`. A file that is moved or deleted under
 * the store is written to no more: its verbs reject with the code SQLITE_READONLY_DBMOVED.
 *
 * @param file - path, or `:memory:`. Another copy of SQLite that opens the file in this process, as better-sqlite3
 *   next to Node's own, would drop the store's locks when it closes the file
 * @throws Error at once when there is no SQLite, the file cannot be opened, or another version of this package wrote it
 * @example
 * setupDidAuth(app, { ...config, store: sqliteStore('./auth.db') })
 */
export function sqliteStore(file: string, options?: SqliteStoreOptions): Store {
  return openSqliteStore(file, options)
}

/** Opens a store; tests pass another engine, or clocks that jump. */
export function openSqliteStore(
  file: string,
  { maxSessions = 10_000_000, maxChallengeUses = 1_000_000, maxQuotas = 100_000 }: SqliteStoreOptions = {},
  engine: EngineName = chooseEngine(),
  times?: SweepTimes
): Store {
  const opened = prepareFile(file, engine, TABLES, 'did_auth_numbers')
  const start = (role: ThreadRole): Worker => {
    const database: ThreadDatabase = { ...opened, engine, synchronous: 'FULL', role }
    return startWorker(new URL('./worker.js', import.meta.url), database)
  }
  const threads = startSqliteThreads({ start, reads: isFile(file) ? STORE_READS : new Set() })
  const verbs = createMethods(createStoreVerbs(sqliteDialect), threads.run)
  const bounds = { sessions: maxSessions, challengeUses: maxChallengeUses }
  const quotas = createMemoryQuotas(maxQuotas)
  const sizes = { bounds, sizeSeconds: SIZE_SECONDS, sweepRows: SWEEP_ROWS }
  return createSqlStore({ verbs, ...sizes, quotas, close: threads.close }, times)
}
