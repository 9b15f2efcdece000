import { POSTGRES_TABLES } from '../sql/tables.js'
import type { PostgresMigration } from './migrate-postgres.js'
import { QUOTA_TABLES } from './quota-table.js'

/** The table that holds the version of the others. */
export const SCHEMA_TABLE = 'did_auth_schema'

/** The steps of the schema. A step that was published never changes: another is added. */
export const MIGRATIONS: readonly PostgresMigration[] = [
  { needsCode: 1, statements: [...POSTGRES_TABLES, ...QUOTA_TABLES] }
]
