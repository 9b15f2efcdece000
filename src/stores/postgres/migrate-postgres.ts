import { DidAuthError } from '../../errors.js'
import { isSetupFault, postgresCode } from './postgres-error.js'
import type { SqlQuery } from '../sql/query.js'
import type { PostgresDatabase } from './postgres-database.js'

/** A step of a schema: the first makes version 1, and so on. It only adds, so that instances of both versions can work. */
export interface PostgresMigration {
  readonly statements: readonly string[]
  /** The lowest number of steps that a version of the code has to know to work on the tables of this step. */
  readonly needsCode: number
}

export interface PostgresMigrationOptions {
  /** Name of the table that holds the version of the others. */
  schemaTable: string
  /**
   * `apply` brings the tables up to date, `check` only asserts that they are, `print` does neither and answers what
   * `apply` would run. Default `apply`.
   */
  mode?: 'apply' | 'check' | 'print'
}

/** Instances that start together wait for the one that migrates. */
const WAITING_SECONDS = 300

const MISSING_TABLE = '42P01'

/**
 * Brings tables up to date. Each step is one transaction, under a lock, so that any number of instances may start at once.
 *
 * @param steps - all steps that this version of the code knows
 * @returns the statements that were run, or with `print` are to be run
 * @throws DidAuthError ERR_CONFIG when the tables are older (only with `check`) or need a newer version of the code, or when
 *   PostgreSQL refuses the user, its password or its database; ERR_STORE when it is unavailable
 */
export async function migratePostgres(
  database: PostgresDatabase,
  steps: readonly PostgresMigration[],
  { schemaTable, mode = 'apply' }: PostgresMigrationOptions
): Promise<string[]> {
  try {
    const version = await findVersion(database, steps, schemaTable)
    if (mode === 'check') assertNotOlder(version, steps, schemaTable)
    const statements: string[] = []
    for (let number = version + 1; number <= steps.length && mode !== 'check'; number += 1) {
      const texts = textsOf(steps, number, schemaTable)
      if (mode === 'print') statements.push(...texts)
      else if (await applyStep(database, texts, { number, steps, schemaTable })) statements.push(...texts)
    }
    return statements
  } catch (error) {
    if (!isSetupFault(error) || !(error instanceof Error)) throw error
    const message = error.cause instanceof Error ? error.cause.message : error.message
    throw new DidAuthError('ERR_CONFIG', { message: `express-did-auth: ${message}`, cause: error.cause })
  }
}

function textsOf(steps: readonly PostgresMigration[], number: number, schemaTable: string): string[] {
  const step = steps[number - 1]
  const table = `CREATE TABLE IF NOT EXISTS ${schemaTable} (
    version int PRIMARY KEY, needs_code int NOT NULL, applied_at timestamptz NOT NULL DEFAULT pg_catalog.now())`
  const row = `INSERT INTO ${schemaTable} (version, needs_code) VALUES (${String(number)}, ${String(step?.needsCode)})`
  return [table, ...(step?.statements ?? []), row]
}

/** @returns false when another instance was faster */
async function applyStep(
  database: PostgresDatabase,
  texts: readonly string[],
  { number, steps, schemaTable }: { number: number; steps: readonly PostgresMigration[]; schemaTable: string }
): Promise<boolean> {
  const apply = async (query: SqlQuery): Promise<boolean> => {
    await query({ text: 'SET LOCAL lock_timeout = 0' })
    await query({ text: 'SET LOCAL statement_timeout = 0' })
    await query({ text: 'SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))' }, [schemaTable])
    const { rows } = await query({ text: 'SELECT pg_catalog.to_regclass($1) IS NOT NULL AS exists' }, [schemaTable])
    const version = rows[0]?.exists === true ? await readVersion(query, steps, schemaTable) : 0
    if (version >= number) return false
    for (const text of texts) await query({ text })
    return true
  }
  return database.transaction(apply, { timeoutSeconds: WAITING_SECONDS, isRepeatable: true })
}

async function findVersion(
  database: PostgresDatabase,
  steps: readonly PostgresMigration[],
  schemaTable: string
): Promise<number> {
  try {
    return await readVersion((statement) => database.query(statement, [], { isRepeatable: true }), steps, schemaTable)
  } catch (error) {
    if (postgresCode(error) === MISSING_TABLE) return 0
    throw error
  }
}

async function readVersion(query: SqlQuery, steps: readonly PostgresMigration[], schemaTable: string): Promise<number> {
  const text = `SELECT pg_catalog.max(version) AS version, pg_catalog.max(needs_code) AS needs_code FROM ${schemaTable}`
  const { rows } = await query({ text })
  const [version, needsCode] = [Number(rows[0]?.version ?? 0), Number(rows[0]?.needs_code ?? 0)]
  if (needsCode > steps.length) {
    const known = `this one knows ${String(steps.length)}`
    throw new DidAuthError('ERR_CONFIG', {
      message: `express-did-auth: the tables of ${schemaTable} are of version ${String(version)}, for code that knows version ${String(needsCode)}; ${known}: update express-did-auth`
    })
  }
  return version
}

function assertNotOlder(version: number, steps: readonly PostgresMigration[], schemaTable: string): void {
  if (version >= steps.length) return
  const found = version === 0 ? 'are missing' : `are of version ${String(version)}`
  throw new DidAuthError('ERR_CONFIG', {
    message: `express-did-auth: the tables of ${schemaTable} ${found}, and version ${String(steps.length)} is needed: run \`npx express-did-auth-servers migrate\``
  })
}
