import { DidAuthError } from '../../errors.js'
import { isSetupFault } from './postgres-error.js'
import type { SqlQuery } from '../sql/query.js'
import type { PostgresDatabase } from './postgres-database.js'

/** A step of a schema: the first makes version 1. It only adds, so that instances of both versions can work. */
export interface PostgresMigration {
  readonly statements: readonly string[]
  /** The lowest number of steps that a version of the code has to know to work on the tables of this step. */
  readonly needsCode: number
}

export interface PostgresMigrationOptions {
  /** Name of the table that holds the version of the others. */
  schemaTable: string
  /** `apply`, the default, brings tables up to date, `check` asserts that they are, `print` answers what is left. */
  mode?: 'apply' | 'check' | 'print'
}

/** Instances that start together wait for the one that migrates. */
const WAITING_SECONDS = 300

const LOCK = 'SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))'

/**
 * Brings tables up to date, each step in one transaction under a lock: any number of instances may start at once.
 *
 * @returns the statements that were run, or with `print` are to be run
 * @throws DidAuthError ERR_CONFIG when the tables are older (only with `check`) or need a newer version of the code, or
 *   when PostgreSQL refuses the user, its password or its database; ERR_STORE when it is unavailable
 */
export async function migratePostgres(
  database: PostgresDatabase,
  steps: readonly PostgresMigration[],
  { schemaTable, mode = 'apply' }: PostgresMigrationOptions
): Promise<string[]> {
  const misfit = (what: string): DidAuthError =>
    new DidAuthError('ERR_CONFIG', { message: `express-did-auth: the tables of ${schemaTable} ${what}` })

  const readVersion = async (query: SqlQuery): Promise<number> => {
    const text = `SELECT pg_catalog.max(version) AS version, pg_catalog.max(needs_code) AS needs_code FROM ${schemaTable}`
    const { rows } = await query({ text })
    const [version, needsCode] = [Number(rows[0]?.version ?? 0), Number(rows[0]?.needs_code ?? 0)]
    if (needsCode <= steps.length) return version
    const known = `this one knows ${String(steps.length)}: update express-did-auth`
    throw misfit(`are of version ${String(version)}, for code that knows version ${String(needsCode)}; ${known}`)
  }

  const listTexts = ({ statements, needsCode }: PostgresMigration, version: string): string[] => [
    `CREATE TABLE IF NOT EXISTS ${schemaTable} (
    version int PRIMARY KEY, needs_code int NOT NULL, applied_at timestamptz NOT NULL DEFAULT pg_catalog.now())`,
    ...statements,
    `INSERT INTO ${schemaTable} (version, needs_code) VALUES (${version}, ${String(needsCode)})`
  ]

  /** Runs no statement when another instance was faster. */
  const apply = (texts: string[], number: number): Promise<string[]> =>
    database.transaction(
      async (query) => {
        await query({ text: 'SET LOCAL lock_timeout = 0' })
        await query({ text: 'SET LOCAL statement_timeout = 0' })
        await query({ text: LOCK }, [schemaTable])
        const [makeSchemaTable = '', ...others] = texts
        // Before the version is read: a connection that saw no such table believes so until a statement locks one.
        await query({ text: makeSchemaTable })
        if ((await readVersion(query)) >= number) return []
        for (const text of others) await query({ text })
        return texts
      },
      { timeoutSeconds: WAITING_SECONDS, isRepeatable: true }
    )

  try {
    const query: SqlQuery = (statement) => database.query(statement, [], { isRepeatable: true })
    // A statement on a table that is missing would be an error in PostgreSQL's log.
    const { rows } = await query({ text: `SELECT CAST(pg_catalog.to_regclass('${schemaTable}') AS text) AS name` })
    const version = rows[0]?.name === null ? 0 : await readVersion(query)
    if (mode === 'check' && version < steps.length) {
      const found = version === 0 ? 'are missing' : `are of version ${String(version)}`
      const remedy = 'run `npx express-did-auth-servers migrate`'
      throw misfit(`${found}, and version ${String(steps.length)} is needed: ${remedy}`)
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
