/**
 * Loaded into a process by `--import`: kills it, as `kill -9` does, at a point between two SQL statements.
 *
 * `TEST_KILL_SQL` is a pattern of the statement; `TEST_KILL_WHEN` is `before` or `after` it. With `TEST_KILL_ARM` it is the
 * first such statement after one of that pattern: the COMMIT of the transaction that wrote a pin, for instance.
 */
import Database from 'better-sqlite3'

const { TEST_KILL_SQL = '', TEST_KILL_WHEN, TEST_KILL_ARM } = process.env

type Run = (...values: unknown[]) => unknown
interface Native {
  prepare: (this: Native, sql: string, ...rest: unknown[]) => { run: Run; all: Run }
}

// Every statement, those of transactions too, is prepared by the native part.
const database = new Database(':memory:')
const [hidden] = Object.getOwnPropertySymbols(database)
const native = Object.getPrototypeOf((database as unknown as Record<symbol, Native>)[hidden!]) as Native
const { prepare } = native
const target = new RegExp(TEST_KILL_SQL)
let isArmed = TEST_KILL_ARM === undefined

native.prepare = function (sql, ...rest) {
  const statement = prepare.call(this, sql, ...rest)
  const isTarget = target.test(sql)
  const isArming = TEST_KILL_ARM !== undefined && new RegExp(TEST_KILL_ARM).test(sql)
  if (!isTarget && !isArming) return statement
  // A statement that changes rows and answers them is asked for all.
  for (const verb of ['run', 'all'] as const) {
    const call = statement[verb].bind(statement)
    statement[verb] = (...values) => {
      if (isTarget && isArmed && TEST_KILL_WHEN === 'before') kill()
      const result = call(...values)
      if (isTarget && isArmed && TEST_KILL_WHEN === 'after') kill()
      if (isArming) isArmed = true
      return result
    }
  }
  return statement
}

function kill(): void {
  process.kill(process.pid, 'SIGKILL')
  // The signal is delivered at once, and what follows must not run in any case.
  for (;;);
}
