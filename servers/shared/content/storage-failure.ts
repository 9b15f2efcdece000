import { DidAuthError } from 'express-did-auth'
import { ServerError } from '../http/server-error.js'
import { codeOf } from '../environment/start-error.js'

/** No room on the disk: SQLite says so, or only that it cannot write or make its index file longer. */
const FULL = new Set(['SQLITE_FULL', 'SQLITE_IOERR_WRITE', 'SQLITE_IOERR_SHMSIZE', 'ENOSPC', 'EDQUOT'])

/** Of the disk, the file or whoever else writes: another statement would fare no better. */
const OF_ALL = /^SQLITE_(BUSY|CANTOPEN|CORRUPT|FULL|IOERR|LOCKED|NOMEM|NOTADB|PERM|PROTOCOL|READONLY)/

/** Whether a failure says nothing of the statement that met it. */
export function isOfAllStatements(error: unknown): boolean {
  return OF_ALL.test(codeOf(error) ?? '')
}

/** Whether an error means that another connection was writing for too long. */
export function isBusy(error: unknown): boolean {
  return codeOf(error)?.startsWith('SQLITE_BUSY') === true
}

/**
 * What a failure of the database means to a caller: ServerError ERR_STORAGE_FULL, which goes by itself when there is room
 * again, or DidAuthError ERR_STORE. What is no failure of the database is answered as it is.
 */
export function storageFailure(error: unknown): unknown {
  const code = codeOf(error)
  if (code === undefined || error instanceof ServerError || error instanceof DidAuthError) return error
  if (FULL.has(code)) return new ServerError('ERR_STORAGE_FULL', { cause: error })
  return code.startsWith('SQLITE_') ? new DidAuthError('ERR_STORE', { cause: error }) : error
}
