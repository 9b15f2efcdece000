import type { Store } from '../../../src/ports.js'
import type { SweepTimes } from '../../../src/stores/sql/sql-store.js'
import { openPostgresStore, type PostgresStoreOptions } from '../../../src/stores/postgres/postgres-store.js'
import { SweepClock } from '../../../src/stores/sweep-clock.js'
import { migrateStore } from '../../../src/stores/postgres/index.js'
import { KeptPools } from '../engines/postgres-pools.js'
import { TEST_TIMEOUT_SECONDS, testDatabase } from '../engines/postgres-server.js'

const TABLES = [
  'did_auth_sessions',
  'did_auth_ended_sessions',
  'did_auth_challenge_uses',
  'did_auth_request_quotas',
  'did_auth_anonymous_quotas'
]

/** Database with the tables of the store, and the stores that are open on it. */
export interface PostgresTables {
  readonly url: string
  /**
   * Opens a store. By default, its sweeps trust each clock at once, since the clocks of tests jump. With `poolSize` or
   * `timeoutSeconds` it has connections of its own, which it closes.
   */
  store(options?: PostgresStoreOptions, times?: SweepTimes): Store
  rows(text: string, values?: unknown[]): Promise<Record<string, unknown>[]>
  /** Updates the estimated sizes of the tables, as PostgreSQL does periodically. */
  analyze(): Promise<void>
  /** Closes all stores and empties the tables. */
  clear(): Promise<void>
  drop(): Promise<void>
}

export { TEST_TIMEOUT_SECONDS }

/** Creates a database with the tables of the store. */
export async function postgresTables(): Promise<PostgresTables> {
  const { url, query: rows, empty, drop } = await testDatabase()
  await migrateStore(url)
  const pools = new KeptPools(url)
  const open: Store[] = []
  let isAnalyzed = false
  const close = async (): Promise<void> => {
    await Promise.all(open.splice(0).map((store) => store.close()))
    await pools.takeBack()
  }
  return {
    url,
    store: (options = {}, times = { clock: new SweepClock(undefined, 0), graceSeconds: 0 }) => {
      const source = options.poolSize === undefined && options.timeoutSeconds === undefined ? pools.lend() : url
      const store = openPostgresStore(source, { timeoutSeconds: TEST_TIMEOUT_SECONDS, ...options }, times)
      open.push(store)
      return store
    },
    rows,
    async analyze() {
      isAnalyzed = true
      await rows(`ANALYZE ${TABLES.join()}`)
    },
    async clear() {
      await close()
      // Only TRUNCATE also resets the estimated sizes.
      await (isAnalyzed ? rows(`TRUNCATE ${TABLES.join()}`) : empty(TABLES))
      isAnalyzed = false
      await rows('UPDATE did_auth_numbers SET number = 0')
    },
    async drop() {
      await close()
      await pools.end()
      await drop()
    }
  }
}
