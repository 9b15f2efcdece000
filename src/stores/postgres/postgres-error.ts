import { DidAuthError } from '../../errors.js'
import { isObject } from '../../protocol/json.js'

const RETRY_AFTER_SECONDS = 5

/** A deadlock, a serialization failure, a lock that was not free in time: the statement is simply run again. */
const CONFLICTS: readonly string[] = ['40001', '40P01', '55P03']

/** The server is a standby, or was one when the connection was made: the primary is elsewhere now. */
export const READ_ONLY = '25006'

/** Messages by code, for faults that an operator has to correct before the database can be used. */
const SETUP_FAULTS: Readonly<Record<string, string>> = {
  '28P01': 'PostgreSQL refused the password',
  '28000': 'PostgreSQL refused the user',
  '3D000': 'PostgreSQL has no such database',
  '3F000': 'PostgreSQL has no schema to create tables in',
  '42501': "PostgreSQL refused the user's access to the tables"
}

/** Hints by code, for errors whose cause the message of PostgreSQL does not name. */
const HINTS: Readonly<Record<string, string>> = {
  [READ_ONLY]: 'this PostgreSQL is read-only, as a standby is',
  '08P01': 'PostgreSQL or a proxy refused the connection: behind PgBouncer, set `prepare` to false',
  '26000': 'PostgreSQL lost a prepared statement: behind PgBouncer, set `prepare` to false',
  '42P05': 'PostgreSQL has another prepared statement of this name: behind PgBouncer, set `prepare` to false',
  '42P01':
    'PostgreSQL has no tables of express-did-auth, or another version of them: run `npx express-did-auth-servers migrate`',
  '42703': 'PostgreSQL has another version of the tables: run `npx express-did-auth-servers migrate`',
  '53300': 'PostgreSQL has no connection left: the pools together are larger than max_connections'
}

/** Returns the SQLSTATE that PostgreSQL sent; an empty text for another error, such as a lost connection. */
function getSqlState(error: unknown): string {
  return isObject(error) && typeof error.severity === 'string' ? getPostgresCode(error) : ''
}

/**
 * The code of a failure of PostgreSQL, also behind an error of the store: a SQLSTATE such as `53100` (disk full), that
 * of a lost connection such as `ECONNREFUSED`, or an empty text.
 */
export function getPostgresCode(error: unknown): string {
  if (!isObject(error)) return ''
  if (error instanceof DidAuthError) return getPostgresCode(error.cause)
  return typeof error.code === 'string' ? error.code : ''
}

/** Whether a statement that failed was not done, and may be done when it is run again. */
export function isConflict(error: unknown, repeatOn: readonly string[]): boolean {
  return [...CONFLICTS, ...repeatOn].includes(getSqlState(error))
}

/** Whether the last statement may have run or not. */
export function isConnectionLost(error: unknown): boolean {
  const state = getSqlState(error)
  return state === '' || state === READ_ONLY || /^(?:08|57P0[123])/.test(state)
}

/** Whether nothing but another setup helps. */
export function isSetupFault(error: unknown): boolean {
  return getPostgresCode(error) in SETUP_FAULTS
}

/** Creates the error of a verb: ERR_STORE, whose cause has the fault in one line, without values or URLs. */
export function storeError(error: unknown): DidAuthError {
  if (error instanceof DidAuthError) return error
  const code = getPostgresCode(error)
  // A name with several addresses fails with the errors of all, without a message.
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error
  const message = first instanceof Error ? first.message : 'unknown error'
  const hint = SETUP_FAULTS[code] ?? HINTS[code]
  const line = (hint === undefined ? '' : `${hint}: `) + message + (code && ` (${code})`)
  const cause = Object.assign(new Error(line), code !== '' && { code })
  return new DidAuthError('ERR_STORE', { cause, retryAfterSeconds: RETRY_AFTER_SECONDS })
}

/** Creates the error for a verb whose time is over. */
export function createExpiredError(): DidAuthError {
  return storeError(new Error('PostgreSQL did not answer in time'))
}
