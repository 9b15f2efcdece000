import { createLazy } from '../../lazy.js'
import type { Store } from '../../ports.js'
import { postgresDialect } from '../sql/dialect.js'
import type { StoreQuery } from '../sql/query.js'
import { createRun, createSqlStore, type SweepTimes } from '../sql/sql-store.js'
import { createLaterSteps, createTables } from '../sql/tables.js'
import { migratePostgres, type PostgresMigration, type PostgresMigrationOptions } from './migrate-postgres.js'
import { createStatementQuery, PostgresDatabase } from './postgres-database.js'
import type { PostgresDatabaseOptions, RepeatOptions } from './postgres-database.js'
import type { PostgresPool } from './postgres-pool.js'
import { QUOTA_TABLES, createQuotaTable } from './quota-table.js'

/** Options of {@link postgresStore}. */
export interface PostgresStoreOptions extends PostgresDatabaseOptions {
  /** Whether the store creates and migrates its tables. If false, call `migrateStore`. Default true. */
  migrate?: boolean
  /** Approximate maximum of sessions, checked every 10 s. Evicts never refreshed ones first. Default 10,000,000. */
  maxSessions?: number
  /** Approximate maximum of challenge uses. Beyond it, logins are refused until a window ends. Default 1,000,000. */
  maxChallengeUses?: number
  /** Approximate maximum of quotas of each kind. Beyond it, those that end first are deleted. Default 1,000,000. */
  maxQuotas?: number
}

/** Migration steps. A published step never changes; changes are new steps. */
const MIGRATIONS: readonly PostgresMigration[] = [
  {
    needsCode: 1,
    statements: [
      ...createTables(postgresDialect),
      'ALTER TABLE did_auth_sessions ALTER COLUMN replaced SET STORAGE MAIN',
      ...QUOTA_TABLES
    ]
  },
  ...createLaterSteps(postgresDialect).map((statements) => ({ needsCode: 1, statements }))
]

const SCHEMA = { schemaTable: 'did_auth_schema' }
/** Interval at which the sizes of the tables are read. */
const SIZE_SECONDS = 10
const SWEEP_ROWS = 1_000

/**
 * Creates a store in a database of PostgreSQL 13 or later, for any number of instances. It needs the package pg.
 *
 * Acknowledged logins, refreshes and logouts survive a crash, and a failover to a synchronous standby. Quotas are in
 * unlogged tables, which are empty after a crash: counting restarts at 0. The store can be created while the database
 * is unavailable; its verbs reject until the database is available.
 *
 * @param source - a URL such as `postgres://user:password@host/database`, or a `Pool` of the package pg, which the
 *   caller closes
 * @throws TypeError if the URL is invalid; Error if the package pg is not installed
 * @example
 * setupDidAuth(app, { ...config, store: postgresStore('postgres://app@localhost/app') })
 */
export function postgresStore(source: string | PostgresPool | PostgresDatabase, options?: PostgresStoreOptions): Store {
  return openPostgresStore(source, options)
}

/**
 * Creates or migrates the tables of {@link postgresStore}. Use it if the service's database user may not do so: that
 * user then needs only SELECT, INSERT, UPDATE and DELETE.
 *
 * @returns the statements that have been run; with `mode: 'print'`, those that would be run
 * @throws DidAuthError ERR_CONFIG, ERR_STORE, as {@link migratePostgres}
 * @example
 * await migrateStore('postgres://owner@host/database')
 */
export async function migrateStore(
  source: string | PostgresPool | PostgresDatabase,
  { mode = 'apply', ...options }: PostgresDatabaseOptions & Pick<PostgresMigrationOptions, 'mode'> = {}
): Promise<string[]> {
  const database = source instanceof PostgresDatabase ? source : new PostgresDatabase(source, options)
  try {
    return await migratePostgres(database, MIGRATIONS, { ...SCHEMA, mode })
  } finally {
    if (database !== source) await database.close()
  }
}

/** Creates the store of {@link postgresStore}. Tests pass other clocks. Each statement is its own transaction. */
export function openPostgresStore(
  source: string | PostgresPool | PostgresDatabase,
  options: PostgresStoreOptions = {},
  times?: SweepTimes
): Store {
  const { migrate = true, maxSessions = 10_000_000, maxChallengeUses = 1_000_000, maxQuotas = 1_000_000 } = options
  const database = source instanceof PostgresDatabase ? source : new PostgresDatabase(source, options)
  /** Migrates or checks the tables, in the first verb. If the database is unavailable, the next verb tries again. */
  const open = createLazy(() => migratePostgres(database, MIGRATIONS, { ...SCHEMA, mode: migrate ? 'apply' : 'check' }))
  const createQuery = (options: RepeatOptions): StoreQuery =>
    Object.assign(createStatementQuery(database, open, options), { dialect: postgresDialect })
  const [repeatable, single] = [createQuery({ isRepeatable: true }), createQuery({})]
  const run = createRun(repeatable, single)
  const bounds = { sessions: maxSessions, challengeUses: maxChallengeUses }
  const quotas = createQuotaTable(repeatable, maxQuotas)
  const close = async (): Promise<void> => {
    if (database !== source) await database.close()
  }
  const engine = { run, bounds, sizeSeconds: SIZE_SECONDS, sweepRows: SWEEP_ROWS, quotas, close }
  return createSqlStore(engine, times)
}
