import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import {
  isFile,
  openConnection,
  rollBack,
  addSqliteCode,
  type EngineName,
  type SqliteConnection
} from './sqlite-engine.js'

/** File that a store has opened. */
export interface OpenedFile {
  /** Absolute path, or `:memory:`. */
  readonly file: string
  /** Inode; undefined for `:memory:`. */
  readonly inode: number | undefined
}

const VERSION = 1

/**
 * Prepares the tables of a file on the caller's thread, so that faults of the file are reported at once.
 *
 * @param numbers - name of the table that contains the version, with the columns `name` and `number`
 * @param laterSteps - steps after the first version, as in {@link prepareTables}
 * @returns absolute path and inode of the file, so that threads open the same file
 * @throws Error if the file cannot be opened, or its tables have another version
 */
export function prepareFile(
  file: string,
  engine: EngineName,
  statements: readonly string[],
  numbers: string,
  laterSteps?: readonly (readonly string[])[]
): OpenedFile {
  const connection = openConnection(file, engine, { synchronous: 'FULL' })
  try {
    prepareTables(connection, statements, numbers, laterSteps)
    return isFile(file) ? { file: resolve(file), inode: statSync(file).ino } : { file, inode: undefined }
  } finally {
    connection.close()
  }
}

/**
 * Creates tables if they are missing. If two processes start together, only one creates them. The version of the tables
 * is a row, because `user_version` belongs to the application.
 *
 * @param laterSteps - statements of later steps. A published step never changes. Steps only add, and the version stays
 *   the same, so that older code can still open the file
 * @throws Error if the tables have another version
 */
export function prepareTables(
  connection: SqliteConnection,
  statements: readonly string[],
  numbers: string,
  laterSteps: readonly (readonly string[])[] = []
): void {
  try {
    connection.exec('BEGIN IMMEDIATE')
    if (connection.prepare('SELECT 1 FROM sqlite_master WHERE name = ?').get(numbers) === undefined) {
      for (const text of statements) connection.exec(text)
      connection.exec(`INSERT INTO ${numbers} (name, number) VALUES ('version', ${String(VERSION)})`)
    }
    const read = connection.prepare(`SELECT number FROM ${numbers} WHERE name = ?`)
    const version = read.get('version')?.number
    if (version !== VERSION) {
      throw new Error(`express-did-auth: the database has tables of version ${String(version)}, not ${String(VERSION)}`)
    }
    const added = Number(read.get('additions')?.number ?? 0)
    for (const text of laterSteps.slice(added).flat()) connection.exec(text)
    if (added < laterSteps.length) {
      const row = `('additions', ${String(laterSteps.length)})`
      connection.exec(`INSERT OR REPLACE INTO ${numbers} (name, number) VALUES ${row}`)
    }
    connection.exec('COMMIT')
  } catch (error) {
    rollBack(connection)
    throw addSqliteCode(error)
  }
}
