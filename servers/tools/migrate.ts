import { DidAuthError } from 'express-did-auth'
import { migrateStore, type PostgresDatabase } from 'express-did-auth/stores/postgres'
import { readEnv, type ServerEnv } from '../config/read-env.js'
import { describeReason, StartError } from '../config/startup-error.js'
import { limitMilliseconds } from '../config/time-limits.js'
import { connectDatabase, describeEngineFault, throwUnusable, waitUntilAvailable } from '../content/connections.js'
import { migrateContent } from '../content/sql/open-postgres-contents.js'
import { readArguments, UsageError, type CommandLine } from './command-line.js'

const OPTIONS = { check: { type: 'boolean' }, print: { type: 'boolean' } } as const

type Mode = 'apply' | 'check' | 'print'
type Out = CommandLine['out']

/** Migrations of all tables of a database, in order. */
const PARTS: Readonly<Record<string, (database: PostgresDatabase, mode: Mode) => Promise<string[]>>> = {
  sessions: (database, mode) => migrateStore(database, { mode }),
  relay: (database, mode) => migrateContent(database, 'relay', mode),
  vault: (database, mode) => migrateContent(database, 'vault', mode)
}

/**
 * Runs `migrate`: updates the tables of `DATABASE_URL`, checks whether they are up to date, or prints the SQL.
 *
 * @returns the exit code; 1: with `--check`, some tables are older
 * @throws UsageError; StartError if no database is configured, or it cannot be used
 */
export async function runMigrate({ args, env, out }: CommandLine): Promise<number> {
  const { values } = readArguments(args, OPTIONS, [0, 0])
  if (values.check === true && values.print === true) throw new UsageError('--check and --print cannot be combined')
  const serverEnv = readEnv(env, 'auth', false, 'operate')
  const missing = 'No database is configured. Set DATABASE_URL. SQLite needs no command: it migrates at each start.'
  if (serverEnv.DATABASE_URL === undefined) throw new StartError(missing)
  // The output is meant for psql, so each message must be an SQL comment.
  const tell = (line: string): void => out(values.print === true ? `-- ${line}` : line)
  return useDatabase(serverEnv, { out: tell }, async (database) => {
    if (values.check === true) return check(database, out)
    if (values.print === true) await print(database, out)
    else await migrateTables(database, out)
    return 0
  })
}

/** Settings of {@link useDatabase}. */
interface DatabaseUse {
  out: Out
  /** Time limit for each transaction. Default: that of the servers. */
  timeoutSeconds?: number
  /** Returns the sentence for the operator if the work fails. Default: its error is thrown unchanged. */
  toSentence?: (reason: string) => string
}

/** Runs work on the database of `DATABASE_URL`, and waits first if it is unavailable. @throws StartError */
export async function useDatabase<T>(
  env: ServerEnv,
  { out, timeoutSeconds, toSentence }: DatabaseUse,
  work: (database: PostgresDatabase) => Promise<T>
): Promise<T> {
  const database = await connectDatabase(env, env.DATABASE_URL ?? '', timeoutSeconds)
  try {
    await waitFor(database, out)
    return await work(database)
  } catch (error) {
    if (error instanceof StartError || toSentence === undefined) throw error
    throw new StartError(toSentence(describeReason(error)), { cause: error })
  } finally {
    await database.close()
  }
}

/** Updates all tables of a database, and prints a line for each part. @throws StartError */
export async function migrateTables(database: PostgresDatabase, out: Out): Promise<void> {
  for (const [name, migrate] of Object.entries(PARTS)) {
    const statements = await migrate(database, 'apply').catch(throwUnusable)
    out(`${name}: ${statements.length === 0 ? 'the tables are up to date' : `ran ${statements.length} statements`}`)
  }
}

/** Waits until a database is available, and prints one line if it has to wait. @throws StartError after the limit */
export async function waitFor(
  database: PostgresDatabase,
  out: Out,
  milliseconds = limitMilliseconds.engineWait
): Promise<void> {
  const connect = (): Promise<unknown> => migrateStore(database, { mode: 'print' })
  const text = `Waiting up to ${milliseconds / 1_000} s for the database (DATABASE_URL).`
  const reason = await waitUntilAvailable(connect, () => out(text), milliseconds)
  if (reason !== undefined) throw new StartError(`Cannot use the database (DATABASE_URL): ${reason}`)
}

async function check(database: PostgresDatabase, out: Out): Promise<number> {
  let code = 0
  for (const [name, migrate] of Object.entries(PARTS)) {
    try {
      await migrate(database, 'check')
    } catch (error) {
      const areOutdated = error instanceof DidAuthError && error.code === 'ERR_CONFIG' && error.cause === undefined
      if (!areOutdated) throwUnusable(error)
      out(`${name}: ${describeEngineFault(error)}`)
      code = 1
    }
  }
  if (code === 0) out('The tables are up to date.')
  return code
}

async function print(database: PostgresDatabase, out: Out): Promise<void> {
  const statements: string[] = []
  for (const part of Object.values(PARTS)) statements.push(...(await part(database, 'print').catch(throwUnusable)))
  if (statements.length === 0) out('-- The tables are up to date.')
  else for (const text of ['BEGIN', ...statements, 'COMMIT']) out(`${text};`)
}
