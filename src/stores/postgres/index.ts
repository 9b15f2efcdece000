export { migrateStore, postgresStore, type PostgresStoreOptions } from './postgres-store.js'
// Parts of the store, for applications that add their own tables, as the servers do.
export { migratePostgres, type PostgresMigration, type PostgresMigrationOptions } from './migrate-postgres.js'
export { PostgresDatabase, type PostgresDatabaseOptions, type RepeatOptions } from './postgres-database.js'
export type { SqlQuery, SqlResult, SqlRow, SqlStatement } from '../sql/query.js'
export { getPostgresCode } from './postgres-error.js'
export type { PostgresClient, PostgresPool } from './postgres-pool.js'
export type * from '../port-types.js'
