import { closeSync, openSync } from 'node:fs'
import { createRequire } from 'node:module'
import { sqliteCode } from './sqlite-error.js'

type DatabaseConstructor = new (file: string, options: { timeout: number }) => unknown

/** Milliseconds for which opening a file waits while another process creates it. */
export const OPENING_MILLISECONDS = 5_000
const PAUSE_MILLISECONDS = 20

/** @throws Error with the command to run, when better-sqlite3 is not installed or was not compiled for this Node */
export function loadBetterSqlite3(): DatabaseConstructor {
  try {
    return createRequire(import.meta.url)('better-sqlite3') as DatabaseConstructor
  } catch (cause) {
    const message =
      sqliteCode(cause) === 'MODULE_NOT_FOUND'
        ? 'express-did-auth/stores/sqlite needs the package better-sqlite3: npm install better-sqlite3'
        : 'express-did-auth/stores/sqlite cannot load the package better-sqlite3: npm rebuild better-sqlite3'
    throw new Error(message, { cause })
  }
}

/** To SQLite, an empty name means a temporary file: all data would silently be lost at the end. */
export function assertFileName(file: unknown): asserts file is string {
  if (typeof file !== 'string') {
    throw new TypeError(
      'express-did-auth: a SQLite store needs the name of its file; an open database cannot be shared'
    )
  }
  if (file === '') throw new TypeError('express-did-auth: the name of the SQLite file is empty')
}

/** Whether a name means a file on disk, which a second connection can open as well. */
export function isFile(name: string): boolean {
  return name !== ':memory:'
}

/**
 * Creates a file that only its owner can read, where there is none. SQLite gives its other files the mode of the first.
 *
 * An existing file is not opened: closing it here would drop this process's locks on it (POSIX).
 */
export function createPrivately(file: string): void {
  if (!isFile(file)) return
  try {
    closeSync(openSync(file, 'wx', 0o600))
  } catch (error) {
    if (sqliteCode(error) !== 'EEXIST') throw error
  }
}

/** SQLite refuses to turn on WAL while another process does the same. This waits and retries. */
export function turnOnLog(database: { exec(text: string): unknown }): void {
  const sleeper = new Int32Array(new SharedArrayBuffer(4))
  for (let waited = 0; ; waited += PAUSE_MILLISECONDS) {
    try {
      database.exec('PRAGMA journal_mode = WAL')
      return
    } catch (error) {
      if (!sqliteCode(error).startsWith('SQLITE_BUSY') || waited >= OPENING_MILLISECONDS) throw error
      Atomics.wait(sleeper, 0, 0, PAUSE_MILLISECONDS)
    }
  }
}
