import type { Worker } from 'node:worker_threads'
import type { Store } from '../../ports.js'
import { createMemoryQuotas } from '../memory/memory-quotas.js'
import { sqliteDialect, type Dialect } from '../sql/dialect.js'
import { collectVerbs } from '../sql/query.js'
import * as sessionVerbs from '../sql/session-verbs.js'
import { createSqlStore, type SweepTimes } from '../sql/sql-store.js'
import * as storeVerbs from '../sql/store-verbs.js'
import { createLaterSteps, createTables } from '../sql/tables.js'
import { prepareFile } from './prepare-tables.js'
import type { ThreadDatabase } from './serve-sqlite.js'
import { chooseEngine, isFile, type EngineName } from './sqlite-engine.js'
import { startSqliteThreads, type ThreadRole } from './sqlite-thread.js'
import { startWorker } from './start-worker.js'

/** Options of {@link sqliteStore}. */
export interface SqliteStoreOptions {
  /** Approximate maximum of sessions, checked every minute. Evicts never refreshed ones first. Default 10,000,000. */
  maxSessions?: number
  /** Approximate maximum of challenge uses. Beyond it, logins are refused until a window ends. Default 1,000,000. */
  maxChallengeUses?: number
  /** Maximum number of quotas of each kind, in memory. Beyond it, the oldest is deleted. Default 100,000. */
  maxQuotas?: number
}

/** Interval at which the sizes of the tables are read. Counting the rows of a large table takes a second. */
const SIZE_SECONDS = 60
/** Batch size of a sweep. Verbs wait for each batch: 25 to 70 ms for 200 sessions, 120 to 240 ms for 1,000. */
const SWEEP_ROWS = 200

/**
 * Creates a store in one SQLite file, for one or several processes on one machine. Before Node 22.13, it needs the
 * package better-sqlite3.
 *
 * Acknowledged logins, refreshes and logouts survive a crash and a power failure. The file contains refresh tokens only
 * as hashes. A new file is readable only by its owner. Each process counts quotas in its memory. One thread writes, and
 * another one reads while it writes. Both end with `close()`. If the file is moved or deleted while the store is open,
 * verbs that write reject with the code SQLITE_READONLY_DBMOVED; verbs that only read are not checked.
 *
 * @param file - path, or `:memory:`. Do not open the file with another copy of SQLite in this process, such as
 *   better-sqlite3 next to Node's own: when it closes the file, it would release the store's locks
 * @throws Error if there is no SQLite, the file cannot be opened, or its tables have another version
 * @example
 * setupDidAuth(app, { ...config, store: sqliteStore('./auth.db') })
 */
export function sqliteStore(file: string, options?: SqliteStoreOptions): Store {
  return openSqliteStore(file, options)
}

/** Creates the store of {@link sqliteStore}. Tests pass another engine or other clocks. */
export function openSqliteStore(
  file: string,
  { maxSessions = 10_000_000, maxChallengeUses = 1_000_000, maxQuotas = 100_000 }: SqliteStoreOptions = {},
  engine: EngineName = chooseEngine(),
  times?: SweepTimes
): Store {
  const laterSteps = createLaterSteps(sqliteDialect)
  const opened = prepareFile(file, engine, createTables(sqliteDialect), 'did_auth_numbers', laterSteps)
  const start = (role: ThreadRole): Worker => {
    const database: ThreadDatabase = { ...opened, engine, synchronous: 'FULL', role }
    return startWorker(new URL('./worker.js', import.meta.url), database)
  }
  const verbs = collectVerbs<Dialect>(sessionVerbs, storeVerbs)
  const { run, close } = startSqliteThreads({ start, verbs, hasReader: isFile(file) })
  const bounds = { sessions: maxSessions, challengeUses: maxChallengeUses }
  const quotas = createMemoryQuotas(maxQuotas)
  const sizes = { bounds, sizeSeconds: SIZE_SECONDS, sweepRows: SWEEP_ROWS }
  return createSqlStore({ run, ...sizes, quotas, close }, times)
}
