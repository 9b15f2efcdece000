import { postgresDialect } from '../sql/dialect.js'
import type { SqlQuery, SqlVerb } from '../sql/query.js'
import { SqlStore, type SqlEngine, type SweepTimes } from '../sql/sql-store.js'
import { storeVerbsOf } from '../sql/store-verbs.js'
import { migratePostgres } from './migrate-postgres.js'
import { PostgresDatabase, type PostgresDatabaseOptions } from './postgres-database.js'
import type { PostgresPool } from './postgres-pool.js'
import { QuotaTable } from './quota-table.js'
import { MIGRATIONS, SCHEMA_TABLE } from './schema.js'

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

const SIZE_SECONDS = 10

/** Each statement of these verbs leaves the same when it is run twice, or says which of both it was. */
const REPEATABLE = { isRepeatable: true }

/**
 * Opens a store in one database of PostgreSQL that any number of instances share. What has to be atomic is one statement, a
 * transaction of its own, so that no instance ever waits for another's answer.
 */
export function openPostgresStore(
  source: string | PostgresPool | PostgresDatabase,
  options: PostgresStoreOptions = {},
  times?: SweepTimes
): SqlStore {
  const { migrate = true, maxSessions = 10_000_000, maxChallengeUses = 1_000_000, maxQuotas = 1_000_000 } = options
  const database = source instanceof PostgresDatabase ? source : new PostgresDatabase(source, options)
  const opened = openOnce(database, migrate ? 'apply' : 'check')
  const verbs = storeVerbsOf(postgresDialect)
  const query: SqlQuery = (statement, values) => database.query(statement, values, REPEATABLE)
  const call = async (name: keyof typeof verbs, ...args: unknown[]): Promise<unknown> => {
    await opened()
    // The caller's types are those of the verb.
    return (verbs[name] as SqlVerb)(query, ...(args as never[]))
  }
  const quotas = new QuotaTable(database, maxQuotas)
  const engine: SqlEngine = {
    call: call as SqlEngine['call'],
    bounds: { sessions: maxSessions, challengeUses: maxChallengeUses },
    sizeSeconds: SIZE_SECONDS,
    quotas: {
      async chargeQuota(charge) {
        await opened()
        return quotas.chargeQuota(charge)
      },
      trim: (repeat) => quotas.trim(repeat),
      deleteEnded: (repeat, endSeconds) => quotas.deleteEnded(repeat, endSeconds)
    },
    close: async () => {
      if (database !== source) await database.close()
    }
  }
  return new SqlStore(engine, times)
}

/** The first verb looks after the tables. A database that is unavailable at the start is tried again by the next. */
function openOnce(database: PostgresDatabase, mode: 'apply' | 'check'): () => Promise<unknown> {
  let opening: Promise<unknown> | undefined
  let isOpen = false
  return async () => {
    if (isOpen) return
    if (opening === undefined) {
      opening = migratePostgres(database, MIGRATIONS, { schemaTable: SCHEMA_TABLE, mode })
      opening.then(
        () => {
          isOpen = true
        },
        () => {
          opening = undefined
        }
      )
    }
    await database.inTime(opening)
  }
}
