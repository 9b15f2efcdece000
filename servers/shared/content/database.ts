import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import type Database from 'better-sqlite3'
import { openSqliteDatabase } from 'express-did-auth/stores/sqlite'
import { startStep } from '../environment/start-error.js'

export type SqliteFile = Database.Database

const MAX_LOG_BYTES = 16_777_216

export interface DatabaseOptions {
  /** `FULL`, the default: a commit survives the loss of power; `NORMAL`: the end of the process, which is cheaper. */
  synchronous?: 'FULL' | 'NORMAL'
  /** Whether what is removed is overwritten: else SQLite leaves it in the file until its place is used again. Default false. */
  secureDelete?: boolean
}

/**
 * Opens a server's own SQLite file as the library opens its store: made for its owner's eyes only where there is none, and
 * patient with another process that does the same. A statement waits 5 s for one that writes.
 *
 * @throws StartError when it cannot be used
 */
export function openDatabase(
  file: string,
  { synchronous = 'FULL', secureDelete = false }: DatabaseOptions = {}
): SqliteFile {
  return startStep(`Cannot use ${file} (DATA_DIR)`, () => {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    // The library knows as much of better-sqlite3 as it uses itself.
    const database = openSqliteDatabase(file, synchronous) as SqliteFile
    database.pragma('cache_size = -65536')
    database.pragma(`secure_delete = ${secureDelete ? 'ON' : 'OFF'}`)
    // A large write makes the log of changes long; it gives the disk back once they are in the file.
    database.pragma(`journal_size_limit = ${MAX_LOG_BYTES}`)
    return database
  })
}

/** Bytes of the file that hold nothing: it never shrinks, and what is written next is written there. */
export function freeBytesOf(database: SqliteFile): number {
  const [pages, pageBytes] = ['freelist_count', 'page_size'].map((name) => database.pragma(name, { simple: true }))
  return Number(pages) * Number(pageBytes)
}
