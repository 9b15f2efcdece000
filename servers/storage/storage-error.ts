import { DidAuthError } from 'express-did-auth'
import { getErrorCode } from '../config/startup-error.js'
import { ServerError, type ServerErrorOptions } from '../http/server-error.js'

/** Refusal of a store, in the form that is sent between threads. */
export interface Refusal extends Pick<ServerErrorOptions, 'detail' | 'retryAfterSeconds' | 'etag'> {
  readonly refused: 'ERR_PRECONDITION' | 'ERR_TAKEN_DOWN' | 'ERR_STORAGE' | 'ERR_STORAGE_FULL' | 'ERR_TOO_MANY_REQUESTS'
}

/** Codes of a full disk: of SQLite (also if it cannot extend its index file), of PostgreSQL and of the system. */
const FULL = /^(SQLITE_FULL|SQLITE_IOERR_SHMSIZE|53100|ENOSPC|EDQUOT)$/

/** Codes of SQLite and of the operating system. */
const OF_STORAGE = /^(SQLITE_|E[A-Z]+$)/

/** Code of an error whose message is a refusal, for sending it between threads. */
const REFUSED = 'REFUSED'

/** Refuses in a verb. @throws Error that {@link toVerbError} converts to the error of the refusal */
export function refuse(refusal: Refusal): never {
  throw Object.assign(new Error(JSON.stringify(refusal)), { code: REFUSED })
}

/** Converts the failure of a verb, in any thread, to the error of its refusal, ERR_STORAGE_FULL or ERR_STORAGE. */
export function toVerbError(error: unknown): unknown {
  const code = getErrorCode(error)
  if (code === REFUSED && error instanceof Error) {
    const { refused, ...options } = JSON.parse(error.message) as Refusal
    return refused === 'ERR_TOO_MANY_REQUESTS' ? new DidAuthError(refused, options) : new ServerError(refused, options)
  }
  const isOfEngine = error instanceof DidAuthError && (code === 'ERR_STORE' || code === 'ERR_CONFIG')
  if (error instanceof DidAuthError && !isOfEngine) return error
  const cause = isOfEngine ? error.cause : error
  const failure = toStorageError(cause)
  // Other failures: a thread has ended, the store is closed, or a connection was lost.
  return failure instanceof ServerError ? failure : new ServerError('ERR_STORAGE', { cause, ...readWait(error) })
}

/** Whether the error means that content is lost or damaged here, so that a copy elsewhere is needed. */
export function isMissing(error: unknown): boolean {
  return getErrorCode(error) === 'ERR_CONTENT_MISSING'
}

/** Converts a failure of database or disk to ERR_STORAGE_FULL or ERR_STORAGE. Returns other errors unchanged. */
export function toStorageError(error: unknown): unknown {
  if (error instanceof ServerError || error instanceof DidAuthError) return error
  const code = getErrorCode(error) ?? ''
  if (FULL.test(code)) return new ServerError('ERR_STORAGE_FULL', { cause: error })
  return OF_STORAGE.test(code) ? new ServerError('ERR_STORAGE', { cause: error, ...readWait(error) }) : error
}

/** Reads the time that storage in the network asks clients to wait. */
function readWait(error: unknown): { retryAfterSeconds?: number } {
  if (typeof error !== 'object' || error === null || !('retryAfterSeconds' in error)) return {}
  return typeof error.retryAfterSeconds === 'number' ? { retryAfterSeconds: error.retryAfterSeconds } : {}
}
