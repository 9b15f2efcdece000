export { migrateStore, postgresStore, type PostgresStoreOptions } from './postgres-store.js'
// The parts of the store, for tables of one's own as the servers have theirs.
export { migratePostgres, type PostgresMigration, type PostgresMigrationOptions } from './migrate-postgres.js'
export { PostgresDatabase, type PostgresDatabaseOptions, type RepeatOptions } from './postgres-database.js'
export type { SqlQuery, SqlResult, SqlRow, SqlStatement } from '../sql/query.js'
export { getPostgresCode } from './postgres-error.js'
export type { PostgresClient, PostgresPool } from './connections.js'
export type * from '../port-types.js'
