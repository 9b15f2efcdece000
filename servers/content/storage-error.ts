import { DidAuthError } from 'express-did-auth'
import { getErrorCode } from '../config/startup-error.js'
import { ServerError, type ServerErrorOptions } from '../http/server-error.js'

/** Refusal of a store, in a form that can be sent between threads. */
export interface Refusal extends Pick<ServerErrorOptions, 'detail' | 'retryAfterSeconds' | 'etag'> {
  readonly refused: 'ERR_PRECONDITION' | 'ERR_TAKEN_DOWN' | 'ERR_STORAGE' | 'ERR_STORAGE_FULL' | 'ERR_TOO_MANY_REQUESTS'
}

/** Codes of a full disk: from SQLite (also if it cannot extend its index file), PostgreSQL and the system. */
const FULL = /^(SQLITE_FULL|SQLITE_IOERR_SHMSIZE|53100|ENOSPC|EDQUOT)$/

/** Codes of SQLite and of the operating system. */
const STORAGE_CODE = /^(SQLITE_|E[A-Z]+$)/

/** Code of an error whose message is a refusal as JSON, so that it can be sent between threads. */
const REFUSED = 'REFUSED'

/** Refuses a verb. @throws Error that {@link toVerbError} converts to the error of the refusal */
export function refuse(refusal: Refusal): never {
  throw Object.assign(new Error(JSON.stringify(refusal)), { code: REFUSED })
}

/** Converts the failure of a verb, from any thread, to the error of a refusal, ERR_STORAGE_FULL or ERR_STORAGE. */
export function toVerbError(error: unknown): unknown {
  const code = getErrorCode(error)
  if (code === REFUSED && error instanceof Error) {
    const { refused, ...options } = JSON.parse(error.message) as Refusal
    return refused === 'ERR_TOO_MANY_REQUESTS' ? new DidAuthError(refused, options) : new ServerError(refused, options)
  }
  const isEngineError = error instanceof DidAuthError && (code === 'ERR_STORE' || code === 'ERR_CONFIG')
  if (error instanceof DidAuthError && !isEngineError) return error
  const cause = isEngineError ? error.cause : error
  const failure = toStorageError(cause)
  // Other failures: a thread has ended, the store is closed, or a connection is lost.
  return failure instanceof ServerError ? failure : new ServerError('ERR_STORAGE', { cause, ...readRetryAfter(error) })
}

/** Whether an error means that content is lost or damaged in this store, so that only a copy elsewhere helps. */
export function isMissing(error: unknown): boolean {
  return getErrorCode(error) === 'ERR_CONTENT_MISSING'
}

/** Converts a failure of database or disk to ERR_STORAGE_FULL or ERR_STORAGE. Returns other errors unchanged. */
export function toStorageError(error: unknown): unknown {
  if (error instanceof ServerError || error instanceof DidAuthError) return error
  const code = getErrorCode(error) ?? ''
  if (FULL.test(code)) return new ServerError('ERR_STORAGE_FULL', { cause: error })
  return STORAGE_CODE.test(code) ? new ServerError('ERR_STORAGE', { cause: error, ...readRetryAfter(error) }) : error
}

/** Returns the time that storage in the network asks its clients to wait. */
function readRetryAfter(error: unknown): { retryAfterSeconds?: number } {
  if (typeof error !== 'object' || error === null || !('retryAfterSeconds' in error)) return {}
  return typeof error.retryAfterSeconds === 'number' ? { retryAfterSeconds: error.retryAfterSeconds } : {}
}
