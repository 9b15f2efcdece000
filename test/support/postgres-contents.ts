import { afterAll, beforeAll } from '@jest/globals'
import { join } from 'node:path'
import { PostgresDatabase, type PostgresDatabaseOptions, type PostgresPool } from 'express-did-auth/stores/postgres'
import { ContentDatabase } from '../../servers/storage/postgres/content-database.js'
import {
  migrateContent,
  openPostgresContentStore,
  type PostgresContentStoreOptions
} from '../../servers/storage/postgres/open-postgres-content-store.js'
import { PostgresObjectStore } from '../../servers/storage/postgres/postgres-object-store.js'
import { fakeClocks, objectNames, type ContentFolder, type TestStore } from './content-stores.js'
import { runOn, TEST_TIMEOUT_SECONDS, testDatabase, type TestDatabase } from './postgres-server.js'
import { temporaryFolder } from './store-folder.js'

export interface PostgresStoreOptions extends Partial<Omit<PostgresContentStoreOptions, 'database'>> {
  /** Another way to the database. */
  readonly source?: string | PostgresPool
  readonly pool?: PostgresDatabaseOptions
}

/** Stores on one database, each with a pool and a spool of its own, as instances of a server have them. */
export interface PostgresContents extends ContentFolder {
  readonly url: string
  /** Runs a text beside all stores. */
  query(text: string, values?: unknown[]): Promise<Record<string, unknown>[]>
  openAll(
    options?: PostgresStoreOptions
  ): ReturnType<typeof openPostgresContentStore> & { readonly database: PostgresDatabase }
  open(options?: PostgresStoreOptions): Promise<TestStore>
  /** What is there that nothing uses, and what is used and not there, once all garbage is collected. */
  leaks(store: TestStore): Promise<string[]>
  /** A folder that is removed at the end. */
  readonly folder: string
}

/** Content that nothing uses, entries whose content is not there, and what a collector has left. */
const LEAKS = `SELECT 'unused content ' || cid AS name FROM vault_contents c
    WHERE NOT EXISTS (SELECT 1 FROM vault_entries e WHERE e.cid = c.cid)
      AND NOT EXISTS (SELECT 1 FROM vault_files f WHERE f.cid = c.cid)
  UNION ALL SELECT 'missing content ' || cid FROM vault_entries e
    WHERE NOT EXISTS (SELECT 1 FROM vault_contents c WHERE c.cid = e.cid)
  UNION ALL SELECT 'loose ' || cid FROM vault_loose
  UNION ALL SELECT 'garbage ' || object FROM vault_garbage
  UNION ALL SELECT 'pin ' || cid || ' is ' || state FROM vault_pins p
    WHERE (state <> 'unpin') <> EXISTS (SELECT 1 FROM vault_contents c WHERE c.cid = p.cid)`

/** Prepares a database for the tests of a file, with the tables of a vault; each test gets it empty. */
export function usePostgresContents(): () => Promise<PostgresContents> {
  let database: TestDatabase | undefined
  beforeAll(async () => {
    database = await testDatabase()
    const migrating = new PostgresDatabase(database.url, { timeoutSeconds: TEST_TIMEOUT_SECONDS })
    await migrateContent(migrating, 'vault')
    await migrating.close()
  })
  afterAll(() => database?.drop())
  return async () => {
    const { url } = database!
    const tables = `SELECT string_agg(tablename, ', ') AS names FROM pg_tables
      WHERE tablename LIKE 'vault_%' AND tablename NOT IN ('vault_schema', 'vault_probes')`
    const [row] = await runOn(url, tables)
    await runOn(url, `TRUNCATE ${String(row?.names)}`)
    return postgresContents(url)
  }
}

function postgresContents(url: string): PostgresContents {
  const { path, remove } = temporaryFolder()
  const clocks = fakeClocks()
  const pools: PostgresDatabase[] = []
  const connect = (target: string | PostgresPool = url, options: PostgresDatabaseOptions = {}): PostgresDatabase => {
    const pool = new PostgresDatabase(target, { timeoutSeconds: TEST_TIMEOUT_SECONDS, ...options })
    pools.push(pool)
    return pool
  }
  const objects = new PostgresObjectStore(new ContentDatabase(connect(), 'vault'))
  const query: PostgresContents['query'] = (text, values) => runOn(url, text, values)
  const openAll: PostgresContents['openAll'] = ({ source, pool, ...options } = {}) => {
    const database = connect(source, pool)
    const monotonicSeconds = (): number => clocks.monotonicSeconds
    const folder = join(path, `instance-${pools.length}`)
    const opened = openPostgresContentStore({
      database,
      tables: 'vault',
      folder,
      clock: clocks,
      monotonicSeconds,
      ...options
    })
    return { ...opened, database }
  }
  return {
    url,
    clocks,
    objects,
    remains: [],
    folder: path,
    query,
    leaks: async (store) => {
      // Long enough for each unfinished upload.
      clocks.advance(10_000)
      await store.collectGarbage(clocks.seconds)
      const names = (await query(LEAKS)).map(({ name }) => String(name))
      const used = (await query('SELECT object FROM vault_contents WHERE object IS NOT NULL')).map(
        ({ object }) => object
      )
      const there = await objectNames(objects)
      return [...names, ...(used.sort().join() === there.join() ? [] : [`objects ${there.join()} for ${used.join()}`])]
    },
    openAll,
    open: (options) => Promise.resolve(openAll(options).store),
    remove: async () => {
      await Promise.all(pools.map((pool) => pool.close()))
      remove()
    }
  }
}
