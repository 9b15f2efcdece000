import pg from 'pg'
import { afterAll, beforeAll } from '@jest/globals'
import {
  PostgresDatabase,
  type PostgresClient,
  type PostgresDatabaseOptions,
  type PostgresPool
} from 'express-did-auth/stores/postgres'
import { join } from 'node:path'
import {
  migrateContent,
  openPostgresContentStore,
  type PostgresContentStoreOptions
} from '../../../servers/content/sql/open-postgres-contents.js'
import { createPostgresObjectStore } from '../../../servers/content/sql/postgres-object-store.js'
import { fakeClocks, findLeaks, type ContentFolder, type TestStore } from './content-stores.js'
import { KeptPools } from '../engines/postgres-pools.js'
import { TEST_TIMEOUT_SECONDS, testDatabase, type TestDatabase } from '../engines/postgres-server.js'
import { temporaryFolder } from '../fixtures/store-folder.js'

export interface PostgresStoreOptions extends Partial<Omit<PostgresContentStoreOptions, 'database'>> {
  /** Another URL or pool of the same database. */
  readonly source?: string | PostgresPool
  readonly pool?: PostgresDatabaseOptions
}

export type OpenedPostgres = ReturnType<typeof openPostgresContentStore> & { readonly database: PostgresDatabase }

/** Stores on one database. Each has its own pool and spool, like an instance of a server. */
export interface PostgresContents extends ContentFolder {
  readonly url: string
  openAll(options?: PostgresStoreOptions): Promise<OpenedPostgres>
  open(options?: PostgresStoreOptions): Promise<TestStore>
}

/** Prepares a database with the tables of a vault for a test file. Returns a function that empties it for a test. */
export function usePostgresContents(): () => Promise<PostgresContents> {
  let database: TestDatabase | undefined
  let pools: KeptPools | undefined
  let tables: string[] = []
  beforeAll(async () => {
    database = await testDatabase()
    pools = new KeptPools(database.url)
    const migrating = new PostgresDatabase(database.url, { timeoutSeconds: TEST_TIMEOUT_SECONDS })
    await migrateContent(migrating, 'vault')
    await migrating.close()
    const rows = await database.query(`SELECT tablename AS name FROM pg_tables
      WHERE tablename LIKE 'vault_%' AND tablename NOT IN ('vault_schema', 'vault_numbers')`)
    tables = rows.map(({ name }) => String(name))
  })
  afterAll(async () => {
    await pools?.end()
    await database?.drop()
  })
  return async () => {
    await database!.empty(tables)
    return postgresContents(database!, pools!)
  }
}

function postgresContents({ url, query }: TestDatabase, kept: KeptPools): PostgresContents {
  const { path, remove } = temporaryFolder()
  const clocks = fakeClocks()
  const databases: PostgresDatabase[] = []
  const connect = (source?: string | PostgresPool, options?: PostgresDatabaseOptions): PostgresDatabase => {
    const target = source ?? (options === undefined ? kept.lend() : url)
    const database = new PostgresDatabase(target, { timeoutSeconds: TEST_TIMEOUT_SECONDS, ...options })
    databases.push(database)
    return database
  }
  const objects = createPostgresObjectStore(connect(), 'vault')
  const openAll: PostgresContents['openAll'] = ({ source, pool, ...options } = {}) => {
    const database = connect(source, pool)
    const monotonicSeconds = (): number => clocks.monotonicSeconds
    const folder = join(path, `instance-${databases.length}`)
    const parts = { database, tables: 'vault', folder, clock: clocks, monotonicSeconds, ...options } as const
    return Promise.resolve({ ...openPostgresContentStore(parts), database })
  }
  const files: PostgresContents = {
    url,
    clocks,
    objects,
    remains: [],
    folder: path,
    place: `${url} ${join(path, 'writer')}`,
    query: (text) => query(text.replaceAll('~', 'vault_')),
    leaks: (store) => findLeaks(files, store),
    openAll,
    open: async (options) => (await openAll(options)).store,
    retries: () => {
      const sum: Record<string, number> = {}
      for (const { stats } of databases)
        for (const [code, times] of Object.entries(stats.retriesByCode)) sum[code] = (sum[code] ?? 0) + times
      return sum
    },
    remove: async () => {
      await Promise.all(databases.map((database) => database.close()))
      await kept.takeBack()
      remove()
    }
  }
  return files
}

/** Pool of pg that records its statements, and can lose answers. */
export interface WatchedPool extends PostgresPool {
  readonly sent: string[]
  /** Number of round trips: how often a statement was sent while no answer was pending. */
  trips: number
  /** Clears the records. */
  reset(): void
  /** Text of a statement whose next answer is lost: it is executed, and then its connection breaks. */
  loseAnswerTo: string | undefined
}

/** Function of a client that sends a statement. */
type SendStatement = PostgresClient['query']

/** Creates a pool of the real pg, pipelined like the pool of the store, whose clients send statements by `wrap`. */
export function createWrappedPool(url: string, wrap: (send: SendStatement) => SendStatement): PostgresPool {
  // The types of pg do not have `pipeline` yet.
  const settings: pg.PoolConfig & { pipeline: boolean } = { connectionString: url, max: 4, pipeline: true }
  const pool = new pg.Pool(settings)
  const wrapped = new WeakSet()
  const connect = async (): Promise<PostgresClient> => {
    // The store requires only this part of a client of pg.
    const client = (await pool.connect()) as unknown as PostgresClient
    if (!wrapped.has(client)) client.query = wrap(client.query.bind(client))
    wrapped.add(client)
    return client
  }
  return {
    get totalCount() {
      return pool.totalCount
    },
    get idleCount() {
      return pool.idleCount
    },
    connect,
    end: () => pool.end(),
    on: (event, listener) => pool.on(event, listener)
  }
}

/** Creates a pool that records its statements. */
export function watchedPool(url: string): WatchedPool {
  let pendingAnswers = 0
  const pool = createWrappedPool(url, (send) => async (statement) => {
    result.sent.push(statement.name ?? statement.text)
    if (pendingAnswers === 0) result.trips += 1
    pendingAnswers += 1
    try {
      const answer = await send(statement)
      if (statement.text !== result.loseAnswerTo) return answer
      result.loseAnswerTo = undefined
      throw new Error('Connection terminated unexpectedly')
    } finally {
      pendingAnswers -= 1
    }
  })
  const result: WatchedPool = Object.assign(pool, {
    sent: [],
    trips: 0,
    loseAnswerTo: undefined,
    reset: () => {
      result.sent.length = 0
      result.trips = 0
    }
  })
  return result
}
