import { DidAuthError } from 'express-did-auth'
import { getErrorCode } from '../config/startup-error.js'
import { ServerError, type ServerErrorOptions } from '../http/server-error.js'

/** What a store refuses, as it crosses threads. */
export interface Refusal extends Pick<ServerErrorOptions, 'detail' | 'retryAfterSeconds' | 'etag'> {
  readonly refused: 'ERR_PRECONDITION' | 'ERR_TAKEN_DOWN' | 'ERR_STORAGE' | 'ERR_STORAGE_FULL' | 'ERR_TOO_MANY_REQUESTS'
}

/** There is no space, says SQLite (or that it cannot make its index file longer), PostgreSQL, or the system. */
const FULL = /^(SQLITE_FULL|SQLITE_IOERR_SHMSIZE|53100|ENOSPC|EDQUOT)$/

/** Of SQLite, or of the system below it. */
const OF_STORAGE = /^(SQLITE_|E[A-Z]+$)/

/** The code of an error that crosses threads with a refusal as its message. */
const REFUSED = 'REFUSED'

/** Refuses in a verb. @throws Error that {@link storeFailure} turns into the one of the refusal */
export function refuse(refusal: Refusal): never {
  throw Object.assign(new Error(JSON.stringify(refusal)), { code: REFUSED })
}

/** What the failure of a verb means, wherever it ran: what it refused, or ERR_STORAGE_FULL, ERR_STORAGE. */
export function storeFailure(error: unknown): unknown {
  const code = getErrorCode(error)
  if (code === REFUSED && error instanceof Error) {
    const { refused, ...options } = JSON.parse(error.message) as Refusal
    return refused === 'ERR_TOO_MANY_REQUESTS' ? new DidAuthError(refused, options) : new ServerError(refused, options)
  }
  const isOfEngine = error instanceof DidAuthError && (code === 'ERR_STORE' || code === 'ERR_CONFIG')
  if (error instanceof DidAuthError && !isOfEngine) return error
  const cause = isOfEngine ? error.cause : error
  const failure = toStorageError(cause)
  // Else a thread has ended, the store is closed, or a connection was lost.
  return failure instanceof ServerError ? failure : new ServerError('ERR_STORAGE', { cause, ...readWait(error) })
}

/** Whether content is lost or damaged here, so that a copy elsewhere is to be asked for. */
export function isMissing(error: unknown): boolean {
  return getErrorCode(error) === 'ERR_CONTENT_MISSING'
}

/** What a failure of database or disk means: ERR_STORAGE_FULL or ERR_STORAGE. Returns other errors as they are. */
export function toStorageError(error: unknown): unknown {
  if (error instanceof ServerError || error instanceof DidAuthError) return error
  const code = getErrorCode(error) ?? ''
  if (FULL.test(code)) return new ServerError('ERR_STORAGE_FULL', { cause: error })
  return OF_STORAGE.test(code) ? new ServerError('ERR_STORAGE', { cause: error, ...readWait(error) }) : error
}

/** Storage in the network may say how long it wants to be left alone. */
function readWait(error: unknown): { retryAfterSeconds?: number } {
  if (typeof error !== 'object' || error === null || !('retryAfterSeconds' in error)) return {}
  return typeof error.retryAfterSeconds === 'number' ? { retryAfterSeconds: error.retryAfterSeconds } : {}
}
