import type { Store } from '../../../src/ports.js'
import type { SweepTimes } from '../../../src/stores/sql/sql-store.js'
import { openPostgresStore, type PostgresStoreOptions } from '../../../src/stores/postgres/postgres-store.js'
import { SweepClock } from '../../../src/stores/sweep-clock.js'
import { migrateStore } from '../../../src/stores/postgres/index.js'
import { runOn, TEST_TIMEOUT_SECONDS, testDatabase } from '../engines/postgres-server.js'

const TABLES =
  'did_auth_sessions, did_auth_ended_sessions, did_auth_challenge_uses, did_auth_request_quotas, did_auth_anonymous_quotas'

/** Database with the tables of the store, and the stores that are open on it. */
export interface PostgresTables {
  readonly url: string
  /** Opens a store. By default, its sweeps trust each clock at once, because the clocks of tests jump. */
  store(options?: PostgresStoreOptions, times?: SweepTimes): Store
  rows(text: string, values?: unknown[]): Promise<Record<string, unknown>[]>
  /** Closes all stores and empties the tables. */
  clear(): Promise<void>
  drop(): Promise<void>
}

export { TEST_TIMEOUT_SECONDS }

/** Creates a database with the tables of the store. */
export async function postgresTables(): Promise<PostgresTables> {
  const { url, drop } = await testDatabase()
  await migrateStore(url)
  const open: Store[] = []
  const rows = (text: string, values?: unknown[]): Promise<Record<string, unknown>[]> => runOn(url, text, values)
  const close = async (): Promise<void> => {
    await Promise.all(open.splice(0).map((store) => store.close()))
  }
  return {
    url,
    store: (options, times = { clock: new SweepClock(undefined, 0), graceSeconds: 0 }) => {
      const store = openPostgresStore(url, { timeoutSeconds: TEST_TIMEOUT_SECONDS, ...options }, times)
      open.push(store)
      return store
    },
    rows,
    async clear() {
      await close()
      await rows(`TRUNCATE ${TABLES}; UPDATE did_auth_numbers SET number = 0`)
    },
    async drop() {
      await close()
      await drop()
    }
  }
}
