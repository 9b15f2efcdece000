import { closeSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import Database from 'better-sqlite3'
import { codeOf, startStep } from './start-error.js'

export type SqliteFile = Database.Database

/** Milliseconds that a statement waits for another process: an operator's command beside the server. */
const BUSY_MILLISECONDS = 5_000

export interface DatabaseOptions {
  /** `FULL`, the default: a commit survives the loss of power; `NORMAL`: the end of the process, which is cheaper. */
  synchronous?: 'FULL' | 'NORMAL'
}

/**
 * Opens a server's own SQLite file, made for its owner's eyes only where there is none.
 *
 * @throws StartError when it cannot be used
 */
export function openDatabase(file: string, { synchronous = 'FULL' }: DatabaseOptions = {}): SqliteFile {
  return startStep(`Cannot use ${file} (DATA_DIR)`, () => {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    createPrivately(file)
    const database = new Database(file, { timeout: BUSY_MILLISECONDS })
    try {
      database.pragma('journal_mode = WAL')
      database.pragma(`synchronous = ${synchronous}`)
      database.pragma('cache_size = -65536')
      return database
    } catch (error) {
      database.close()
      throw error
    }
  })
}

/** SQLite gives its other files the mode of the first. */
function createPrivately(file: string): void {
  try {
    closeSync(openSync(file, 'wx', 0o600))
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  }
}
