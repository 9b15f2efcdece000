import { DidAuthError, RETRY_AFTER_SECONDS } from '../../errors.js'
import { isObject } from '../../protocol/json.js'

/** SQLSTATEs of a serialization failure, a deadlock and a lock timeout, after which the statement is run again. */
const CONFLICTS: readonly string[] = ['40001', '40P01', '55P03']

/** SQLSTATE of a server that is a standby, so that the primary is another server. */
export const READ_ONLY = '25006'

/** Messages by code, for faults that an operator must correct before the database can be used. */
const SETUP_FAULTS: Readonly<Record<string, string>> = {
  '28P01': 'PostgreSQL refused the password',
  '28000': 'PostgreSQL refused the user',
  '3D000': 'PostgreSQL has no such database',
  '3F000': 'PostgreSQL has no schema to create tables in',
  '42501': "PostgreSQL refused the user's access to the tables"
}

/** Hints by code, for errors whose message from PostgreSQL does not name the cause. */
const HINTS: Readonly<Record<string, string>> = {
  [READ_ONLY]: 'this PostgreSQL server is read-only, as a standby is',
  '08P01': 'PostgreSQL or a proxy refused the connection: behind PgBouncer, set `prepare` to false',
  '26000': 'PostgreSQL lost a prepared statement: behind PgBouncer, set `prepare` to false',
  '42P05': 'PostgreSQL has another prepared statement of this name: behind PgBouncer, set `prepare` to false',
  '42P01': 'PostgreSQL does not have the tables of this version: run `npx express-did-auth-servers migrate`',
  '42703': 'PostgreSQL has tables of another version: run `npx express-did-auth-servers migrate`',
  '53300': 'PostgreSQL has no free connection: the pools together are larger than max_connections'
}

/** Returns the SQLSTATE that PostgreSQL sent, or an empty text for other errors, such as a lost connection. */
function getSqlState(error: unknown): string {
  return isObject(error) && typeof error.severity === 'string' ? getPostgresCode(error) : ''
}

/**
 * Returns the code of a PostgreSQL failure, also if it is the cause of a store error: a SQLSTATE such as `53100` (disk
 * full), the system code of a lost connection such as `ECONNREFUSED`, or an empty text.
 */
export function getPostgresCode(error: unknown): string {
  if (!isObject(error)) return ''
  if (error instanceof DidAuthError) return getPostgresCode(error.cause)
  return typeof error.code === 'string' ? error.code : ''
}

/** Whether a failed statement has had no effect, and may succeed when it is run again. */
export function isConflict(error: unknown, repeatOn: readonly string[]): boolean {
  return [...CONFLICTS, ...repeatOn].includes(getSqlState(error))
}

/** Whether the connection was lost, so that it is unknown whether the last statement has run. */
export function isConnectionLost(error: unknown): boolean {
  const state = getSqlState(error)
  return state === '' || state === READ_ONLY || /^(?:08|57P0[123])/.test(state)
}

/** Whether only a change of the setup can correct an error. */
export function isSetupFault(error: unknown): boolean {
  return getPostgresCode(error) in SETUP_FAULTS
}

/** Converts an error to ERR_STORE. Its cause describes the fault in one line, without values or URLs. */
export function toStoreError(error: unknown): DidAuthError {
  if (error instanceof DidAuthError) return error
  const code = getPostgresCode(error)
  // If a host has several addresses, the error contains one error for each address, and no message.
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error
  const message = first instanceof Error ? first.message : 'unknown error'
  const hint = SETUP_FAULTS[code] ?? HINTS[code]
  const line = (hint === undefined ? '' : `${hint}: `) + message + (code && ` (${code})`)
  const cause = Object.assign(new Error(line), code !== '' && { code })
  return new DidAuthError('ERR_STORE', { cause, retryAfterSeconds: RETRY_AFTER_SECONDS })
}

/** Creates the error for a verb that has exceeded its time limit. */
export function createTimeoutError(): DidAuthError {
  return toStoreError(new Error('PostgreSQL did not answer in time'))
}
