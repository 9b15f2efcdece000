import { closeSync, openSync } from 'node:fs'
import { createRequire } from 'node:module'
import { isObject } from '../protocol/json.js'

/** What is used of a better-sqlite3 `Database`. Written out, so that nobody needs its types to use ours. */
export interface SqliteDatabase {
  readonly inTransaction: boolean
  prepare(text: string): SqliteStatement
  exec(text: string): unknown
  close(): unknown
}

/** What is used of a better-sqlite3 `Statement`. */
export interface SqliteStatement {
  /** Whether it answers rows. */
  readonly reader: boolean
  all(...values: unknown[]): unknown[]
  run(...values: unknown[]): unknown
}

type DatabaseConstructor = new (file: string, options: { timeout: number }) => SqliteDatabase

/** Milliseconds that opening a file waits for others that are just creating it. */
const OPENING_MILLISECONDS = 5_000
const PAUSE_MILLISECONDS = 20

/**
 * Opens a database file in WAL mode, and creates it for its owner's eyes only where there is none.
 *
 * @param file - path, or `:memory:`
 * @param synchronous - `FULL`: a commit survives the loss of power; `NORMAL`: the end of the process, which is cheaper
 * @throws Error when better-sqlite3 is not installed or the file cannot be opened
 */
export function openSqliteDatabase(file: string, synchronous: 'FULL' | 'NORMAL'): SqliteDatabase {
  // To SQLite, no name means a temporary file: everything would be gone at the end, and nobody the wiser.
  if (file === '') throw new TypeError('express-did-auth: the name of the SQLite file is empty')
  const Database = loadConstructor()
  if (isFile(file)) createPrivately(file)
  const database = new Database(file, { timeout: OPENING_MILLISECONDS })
  try {
    retryWhileBusy(() => {
      pragma(database, 'journal_mode = WAL')
    })
    pragma(database, `synchronous = ${synchronous}`)
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

/** Whether a name means a file on disk, that a second connection would find as well. */
export function isFile(name: string): boolean {
  return name !== ':memory:'
}

/** Milliseconds that a statement waits for another process's transaction. The whole process waits with it. */
export function setBusyTimeout(database: SqliteDatabase, milliseconds: number): void {
  pragma(database, `busy_timeout = ${String(milliseconds)}`)
}

/** Whether an error means that another connection was writing for too long. */
export function isBusy(error: unknown): boolean {
  return /^SQLITE_BUSY/.test(codeOf(error))
}

function loadConstructor(): DatabaseConstructor {
  const require = createRequire(import.meta.url)
  try {
    const Database = require('better-sqlite3') as DatabaseConstructor
    warnOfAborts((require('better-sqlite3/package.json') as { version: string }).version, process.versions.node)
    return Database
  } catch (cause) {
    const message =
      codeOf(cause) === 'MODULE_NOT_FOUND'
        ? 'express-did-auth/stores/sqlite needs the package better-sqlite3: npm install better-sqlite3'
        : 'express-did-auth/stores/sqlite cannot load the package better-sqlite3: npm rebuild better-sqlite3'
    throw new Error(message, { cause })
  }
}

/**
 * Warns of a pair that aborts the process: before its version 13, better-sqlite3 asks a Node 24 that is just collecting
 * garbage for something that it does not have then.
 */
export function warnOfAborts(packageVersion: string, nodeVersion: string): void {
  if (parseInt(packageVersion, 10) >= 13 || parseInt(nodeVersion, 10) < 24) return
  const message = `better-sqlite3 ${packageVersion} may abort Node ${nodeVersion}: npm install better-sqlite3@13`
  process.emitWarning(message, { code: 'EXPRESS_DID_AUTH_SQLITE' })
}

/**
 * SQLite gives its other files the mode of the first. A file that is there is not touched: closing it here would drop
 * the locks that this process holds on it (POSIX).
 */
function createPrivately(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600))
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  }
}

/** The `code` that Node and SQLite give their errors. */
function codeOf(error: unknown): string {
  return isObject(error) ? String(error.code) : ''
}

/** Turning on WAL is refused at once, without waiting, while another process does the same. */
function retryWhileBusy(work: () => void): void {
  const sleeper = new Int32Array(new SharedArrayBuffer(4))
  for (let waited = 0; ; waited += PAUSE_MILLISECONDS) {
    try {
      work()
      return
    } catch (error) {
      if (!isBusy(error) || waited >= OPENING_MILLISECONDS) throw error
      Atomics.wait(sleeper, 0, 0, PAUSE_MILLISECONDS)
    }
  }
}

function pragma(database: SqliteDatabase, text: string): void {
  database.exec(`PRAGMA ${text}`)
}
