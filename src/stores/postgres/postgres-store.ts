import type { Store } from '../../ports.js'
import { postgresDialect } from '../sql/dialect.js'
import { methodsOn, type SqlQuery } from '../sql/query.js'
import { sqlStore, type SweepTimes } from '../sql/sql-store.js'
import { storeVerbsOf } from '../sql/store-verbs.js'
import { TABLES } from '../sql/tables.js'
import { migratePostgres, type PostgresMigration } from './migrate-postgres.js'
import { PostgresDatabase, type PostgresDatabaseOptions } from './postgres-database.js'
import type { PostgresPool } from './postgres-pool.js'
import { QUOTA_TABLES, quotaTable } from './quota-table.js'

/** The connection and the bounds of a PostgreSQL store. */
export interface PostgresStoreOptions extends PostgresDatabaseOptions {
  /** Whether the store makes its tables and brings them up to date. Default true; else `migrateStore` does it. */
  migrate?: boolean
  /** Sessions kept, about: checked every 10 s. Beyond it those that were never refreshed are evicted first. Default 10,000,000. */
  maxSessions?: number
  /** Uses of challenges kept, about. Beyond it new logins are refused until a window ends. Default 1,000,000. */
  maxChallengeUses?: number
  /** Quotas kept of each kind, about. Beyond it those that end first are deleted. Default 1,000,000. */
  maxQuotas?: number
}

/** The table that holds the version of the others. */
export const SCHEMA_TABLE = 'did_auth_schema'

/** The steps of the schema. A step that was published never changes: another is added. */
export const MIGRATIONS: readonly PostgresMigration[] = [
  {
    needsCode: 1,
    statements: [...TABLES, 'ALTER TABLE did_auth_sessions ALTER COLUMN replaced SET STORAGE MAIN', ...QUOTA_TABLES]
  }
]

const SIZE_SECONDS = 10

/** Each statement of the verbs leaves the same when it is run twice, or says which of both it was. */
const REPEATABLE = { isRepeatable: true }

/**
 * Opens a store in one database of PostgreSQL that any number of instances share. What has to be atomic is one statement, a
 * transaction of its own, so that no instance ever waits for another's answer.
 */
export function openPostgresStore(
  source: string | PostgresPool | PostgresDatabase,
  options: PostgresStoreOptions = {},
  times?: SweepTimes
): Store {
  const { migrate = true, maxSessions = 10_000_000, maxChallengeUses = 1_000_000, maxQuotas = 1_000_000 } = options
  const database = source instanceof PostgresDatabase ? source : new PostgresDatabase(source, options)
  let isOpen = false
  let opening: Promise<void> | undefined
  /** The first verb looks after the tables. A database that is unavailable at the start is tried again by the next. */
  const open = (): Promise<void> =>
    (opening ??= migratePostgres(database, MIGRATIONS, { schemaTable: SCHEMA_TABLE, mode: migrate ? 'apply' : 'check' })
      .then(() => void (isOpen = true))
      .finally(() => void (opening = undefined)))
  const query: SqlQuery = async (statement, values) => {
    if (!isOpen) await database.inTime(open())
    return database.query(statement, values, REPEATABLE)
  }
  const verbs = storeVerbsOf(postgresDialect)
  const engine = {
    verbs: methodsOn(verbs, query),
    bounds: { sessions: maxSessions, challengeUses: maxChallengeUses },
    sizeSeconds: SIZE_SECONDS,
    quotas: quotaTable(query, maxQuotas),
    close: async () => {
      if (database !== source) await database.close()
    }
  }
  return sqlStore(engine, times)
}
