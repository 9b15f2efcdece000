import { createLazy } from '../../lazy.js'
import type { Store } from '../../ports.js'
import { postgresDialect } from '../sql/dialect.js'
import { createMethods, runVerb, type SqlQuery } from '../sql/query.js'
import { createSqlStore, type SweepTimes } from '../sql/sql-store.js'
import { STORE_SINGLE_USE, createStoreVerbs } from '../sql/store-verbs.js'
import { TABLES } from '../sql/tables.js'
import { migratePostgres, type PostgresMigration, type PostgresMigrationOptions } from './migrate-postgres.js'
import { PostgresDatabase, type PostgresDatabaseOptions, type RepeatOptions } from './postgres-database.js'
import type { PostgresPool } from './connections.js'
import { QUOTA_TABLES, createQuotaTable } from './quota-table.js'

/** The connection and the bounds of a PostgreSQL store. */
export interface PostgresStoreOptions extends PostgresDatabaseOptions {
  /** Whether the store makes its tables and brings them up to date. Default true; else `migrateStore` does it. */
  migrate?: boolean
  /** Approximate maximum of sessions, checked every 10 s. Evicts never refreshed ones first. Default 10,000,000. */
  maxSessions?: number
  /** Approximate maximum of challenge uses. Beyond it, logins are refused until a window ends. Default 1,000,000. */
  maxChallengeUses?: number
  /** Approximate maximum of quotas of each kind. Beyond it, those that end first are deleted. Default 1,000,000. */
  maxQuotas?: number
}

/** A step that was published never changes: another is added. */
const MIGRATIONS: readonly PostgresMigration[] = [
  {
    needsCode: 1,
    statements: [...TABLES, 'ALTER TABLE did_auth_sessions ALTER COLUMN replaced SET STORAGE MAIN', ...QUOTA_TABLES]
  }
]

const SCHEMA = { schemaTable: 'did_auth_schema' }
const SIZE_SECONDS = 10
const SWEEP_ROWS = 1_000

/**
 * A store in a database of PostgreSQL 13 or later, for any number of instances. It needs the package pg.
 *
 * What a login, refresh or logout has been answered survives a crash, and a failover to a synchronous standby. Quotas
 * are in unlogged tables, which are empty after a crash: they only count again. The store can be made while the
 * database is unavailable; its verbs reject until it is there.
 *
 * @param source - a URL such as `postgres://user:password@host/database`, or a `Pool` of the package pg, which stays
 *   yours to close
 * @throws TypeError at once when the URL is none of PostgreSQL, Error when the package pg is not installed
 * @example
 * setupDidAuth(app, { ...config, store: postgresStore('postgres://app@localhost/app') })
 */
export function postgresStore(source: string | PostgresPool | PostgresDatabase, options?: PostgresStoreOptions): Store {
  return openPostgresStore(source, options)
}

/**
 * Makes the tables of {@link postgresStore} or brings them up to date, for those whose service may not: its user then
 * needs only SELECT, INSERT, UPDATE and DELETE.
 *
 * @returns the statements that were run, or with `mode: 'print'` are to be run
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

/** Opens the store of {@link postgresStore}; tests pass their own clocks. Each statement is its own transaction. */
export function openPostgresStore(
  source: string | PostgresPool | PostgresDatabase,
  options: PostgresStoreOptions = {},
  times?: SweepTimes
): Store {
  const { migrate = true, maxSessions = 10_000_000, maxChallengeUses = 1_000_000, maxQuotas = 1_000_000 } = options
  const database = source instanceof PostgresDatabase ? source : new PostgresDatabase(source, options)
  /** The first verb looks after the tables. A database that is unavailable at the start is tried again by the next. */
  const open = createLazy(() => migratePostgres(database, MIGRATIONS, { ...SCHEMA, mode: migrate ? 'apply' : 'check' }))
  let isOpen = false
  const queryWith =
    (options: RepeatOptions): SqlQuery =>
    async (statement, values) => {
      if (!isOpen) await database.inTime(open())
      isOpen = true
      return database.query(statement, values, options)
    }
  const [repeatable, single] = [queryWith({ isRepeatable: true }), queryWith({})]
  const verbs = createStoreVerbs(postgresDialect)
  const methods = createMethods(verbs, (name, args) =>
    runVerb(verbs, name, STORE_SINGLE_USE.has(name) ? single : repeatable, args)
  )
  const bounds = { sessions: maxSessions, challengeUses: maxChallengeUses }
  const quotas = createQuotaTable(repeatable, maxQuotas)
  const close = async (): Promise<void> => {
    if (database !== source) await database.close()
  }
  const engine = { verbs: methods, bounds, sizeSeconds: SIZE_SECONDS, sweepRows: SWEEP_ROWS, quotas, close }
  return createSqlStore(engine, times)
}
