import { DidAuthError } from '../../errors.js'
import { isSetupFault } from './postgres-error.js'
import type { SqlQuery } from '../sql/query.js'
import type { PostgresDatabase } from './postgres-database.js'

/** A migration step; the first one creates version 1. Steps only add, so that instances of both versions can run. */
export interface PostgresMigration {
  /** SQL statements, which run in one transaction. */
  readonly statements: readonly string[]
  /** Minimum number of steps that code must know in order to work with the tables after this step. */
  readonly needsCode: number
}

/** Options of a migration. */
export interface PostgresMigrationOptions {
  /** Name of the table that contains the schema version. */
  schemaTable: string
  /** `apply` (default) migrates the tables; `check` asserts that they are current; `print` only returns statements. */
  mode?: 'apply' | 'check' | 'print'
}

/** Time limit for a step. Instances that start together wait for the one that migrates. */
const STEP_SECONDS = 300

const LOCK = 'SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))'

/**
 * Migrates tables, each step in one transaction under a lock, so that any number of instances may start at once.
 *
 * @returns the statements that have been run; with `print`, those that would be run
 * @throws DidAuthError ERR_CONFIG if the tables are older (only with `check`) or need newer code, or if PostgreSQL
 *   refuses the user, the password or the database; ERR_STORE if PostgreSQL is unavailable
 */
export async function migratePostgres(
  database: PostgresDatabase,
  steps: readonly PostgresMigration[],
  { schemaTable, mode = 'apply' }: PostgresMigrationOptions
): Promise<string[]> {
  const createMisfitError = (what: string): DidAuthError =>
    new DidAuthError('ERR_CONFIG', { message: `express-did-auth: the tables of ${schemaTable} ${what}` })

  const readVersion = async (query: SqlQuery): Promise<number> => {
    const text = `SELECT pg_catalog.max(version) AS version, pg_catalog.max(needs_code) AS needs_code FROM ${schemaTable}`
    const { rows } = await query({ text })
    const [version, needsCode] = [Number(rows[0]?.version ?? 0), Number(rows[0]?.needs_code ?? 0)]
    if (needsCode <= steps.length) return version
    const remedy = `this code knows version ${String(steps.length)}: update express-did-auth`
    throw createMisfitError(
      `have version ${String(version)}, which needs code for version ${String(needsCode)}; ${remedy}`
    )
  }

  const listTexts = ({ statements, needsCode }: PostgresMigration, version: string): string[] => [
    `CREATE TABLE IF NOT EXISTS ${schemaTable} (
    version int PRIMARY KEY, needs_code int NOT NULL, applied_at timestamptz NOT NULL DEFAULT pg_catalog.now())`,
    ...statements,
    `INSERT INTO ${schemaTable} (version, needs_code) VALUES (${version}, ${String(needsCode)})`
  ]

  /** Runs a step. Returns no statements if another instance has already run the step. */
  const apply = (texts: string[], number: number): Promise<string[]> =>
    database.transaction(
      async (query) => {
        await query({ text: 'SET LOCAL lock_timeout = 0' })
        await query({ text: 'SET LOCAL statement_timeout = 0' })
        await query({ text: LOCK }, [schemaTable])
        const [createSchemaTable = '', ...others] = texts
        // This comes before the version is read: it refreshes a connection that has cached that the table is missing.
        await query({ text: createSchemaTable })
        if ((await readVersion(query)) >= number) return []
        for (const text of others) await query({ text })
        return texts
      },
      { timeoutSeconds: STEP_SECONDS, isRepeatable: true }
    )

  try {
    const query: SqlQuery = (statement) => database.query(statement, [], { isRepeatable: true })
    // Reading a missing table would write an error to PostgreSQL's log.
    const { rows } = await query({ text: `SELECT CAST(pg_catalog.to_regclass('${schemaTable}') AS text) AS name` })
    const version = rows[0]?.name === null ? 0 : await readVersion(query)
    if (mode === 'check' && version < steps.length) {
      const state = version === 0 ? 'are missing' : `have version ${String(version)}`
      const remedy = 'run `npx express-did-auth-servers migrate`'
      throw createMisfitError(`${state}, and version ${String(steps.length)} is needed: ${remedy}`)
    }
    const statements: string[] = []
    for (const [index, step] of steps.entries()) {
      if (index < version) continue
      const texts = listTexts(step, String(index + 1))
      statements.push(...(mode === 'print' ? texts : await apply(texts, index + 1)))
    }
    return statements
  } catch (error) {
    if (!isSetupFault(error) || !(error instanceof Error)) throw error
    const message = error.cause instanceof Error ? error.cause.message : error.message
    throw new DidAuthError('ERR_CONFIG', { message: `express-did-auth: ${message}`, cause: error.cause })
  }
}
