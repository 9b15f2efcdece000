import type { Store } from '../../ports.js'
import { migratePostgres, type PostgresMigrationOptions } from './migrate-postgres.js'
import { PostgresDatabase, type PostgresDatabaseOptions } from './postgres-database.js'
import type { PostgresPool } from './postgres-pool.js'
import { MIGRATIONS, openPostgresStore, SCHEMA_TABLE, type PostgresStoreOptions } from './postgres-store.js'

/**
 * A store in a database of PostgreSQL 13 or later, for any number of instances. It needs the package pg.
 *
 * What a login, refresh or logout has been answered survives a crash, and a failover to a synchronous standby. Quotas lie in
 * unlogged tables, which are empty after a crash: they only count again. The store can be made while the database is
 * unavailable; its verbs reject until it is there.
 *
 * @param source - a URL such as `postgres://user:password@host/database`, or a `Pool` of the package pg, which stays yours to
 *   close
 * @throws TypeError at once when the URL is none of PostgreSQL, Error when the package pg is not installed
 * @example
 * ```ts
 * setupDidAuth(app, { ...config, store: postgresStore('postgres://app@localhost/app') })
 * ```
 */
export function postgresStore(source: string | PostgresPool | PostgresDatabase, options?: PostgresStoreOptions): Store {
  return openPostgresStore(source, options)
}

/**
 * Makes the tables of {@link postgresStore} or brings them up to date, for those whose service may not: its user then needs
 * SELECT, INSERT, UPDATE and DELETE alone.
 *
 * @returns the statements that were run, or with `mode: 'print'` are to be run
 * @throws DidAuthError ERR_CONFIG when the tables are older (with `mode: 'check'`) or need a newer version of this package, or
 *   when PostgreSQL refuses the user, its password or its database; ERR_STORE when it is unavailable
 * @example
 * ```ts
 * await migrateStore('postgres://owner@host/database')
 * ```
 */
export async function migrateStore(
  source: string | PostgresPool | PostgresDatabase,
  { mode = 'apply', ...options }: PostgresDatabaseOptions & Pick<PostgresMigrationOptions, 'mode'> = {}
): Promise<string[]> {
  const database = source instanceof PostgresDatabase ? source : new PostgresDatabase(source, options)
  try {
    return await migratePostgres(database, MIGRATIONS, { schemaTable: SCHEMA_TABLE, mode })
  } finally {
    if (database !== source) await database.close()
  }
}

// The parts of the store, for tables of one's own as the servers have theirs.
export { migratePostgres } from './migrate-postgres.js'
export type { PostgresMigration, PostgresMigrationOptions } from './migrate-postgres.js'
export { PostgresDatabase } from './postgres-database.js'
export type { PostgresDatabaseOptions, RepeatOptions } from './postgres-database.js'
export type {
  SqlQuery as PostgresQuery,
  SqlResult as PostgresResult,
  SqlRow as PostgresRow,
  SqlStatement as PostgresStatement
} from '../sql/query.js'
export { postgresCode } from './postgres-error.js'
export type { PostgresClient, PostgresPool } from './postgres-pool.js'
export type { PostgresStoreOptions } from './postgres-store.js'
export type * from '../port-types.js'
