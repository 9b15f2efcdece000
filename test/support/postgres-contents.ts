import { expect } from '@jest/globals'
import { join } from 'node:path'
import { PostgresDatabase, type PostgresDatabaseOptions } from 'express-did-auth/stores/postgres'
import { ContentDatabase } from '../../servers/storage/postgres/content-database.js'
import {
  migrateContent,
  openPostgresContentStore,
  type PostgresContentStoreOptions
} from '../../servers/storage/postgres/open-postgres-content-store.js'
import { PostgresObjectStore } from '../../servers/storage/postgres/postgres-object-store.js'
import type { OpenContentStore } from '../../servers/storage/opened-content-store.js'
import { fakeClocks, type ContentFolder, type TestStore } from './content-stores.js'
import { runOn, testDatabase } from './postgres-server.js'
import { temporaryFolder } from './store-folder.js'

export interface PostgresStoreOptions extends Partial<Omit<PostgresContentStoreOptions, 'database'>> {
  /** Another way to the database, such as a proxy. */
  readonly url?: string
  readonly pool?: PostgresDatabaseOptions
}

/** Stores on one database, each with a pool and a spool of its own, as instances of a server have them. */
export interface PostgresContents extends ContentFolder {
  readonly url: string
  /** Runs a text beside all stores. */
  query(text: string, values?: unknown[]): Promise<Record<string, unknown>[]>
  openAll(options?: PostgresStoreOptions): OpenContentStore & { readonly database: PostgresDatabase }
  open(options?: PostgresStoreOptions): Promise<TestStore>
}

/** Makes an empty database with the tables of a vault. */
export async function postgresContents(): Promise<PostgresContents> {
  const { path, remove } = temporaryFolder()
  const { url, drop } = await testDatabase()
  const clocks = fakeClocks()
  const pools: PostgresDatabase[] = []
  const connect = (target = url, options: PostgresDatabaseOptions = {}): PostgresDatabase => {
    const pool = new PostgresDatabase(target, options)
    pools.push(pool)
    return pool
  }
  const own = connect()
  await migrateContent(own, 'vault')
  const openAll: PostgresContents['openAll'] = ({ url: target, pool, ...options } = {}) => {
    const database = connect(target, pool)
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
    objects: new PostgresObjectStore(new ContentDatabase(own, 'vault')),
    remains: [expect.stringContaining('write-ahead log') as string],
    query: (text, values) => runOn(url, text, values),
    openAll,
    open: (options) => Promise.resolve(openAll(options).store),
    remove: async () => {
      await Promise.all(pools.map((pool) => pool.close()))
      await drop()
      remove()
    }
  }
}
