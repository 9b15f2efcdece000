// The parts of the store, for tables of one's own as the servers have theirs.
export { migratePostgres } from './migrate-postgres.js'
export type { PostgresMigration, PostgresMigrationOptions } from './migrate-postgres.js'
export { PostgresDatabase } from './postgres-database.js'
export type { PostgresDatabaseOptions, PostgresQuery, PostgresResult, RepeatOptions } from './postgres-database.js'
export { postgresCode } from './postgres-error.js'
export type { PostgresClient, PostgresPool, PostgresRow, PostgresStatement } from './postgres-pool.js'
