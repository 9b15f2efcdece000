import { resolve } from 'node:path'
import {
  isFile,
  openConnection,
  rollBack,
  addSqliteCode,
  type EngineName,
  type SqliteConnection
} from './sqlite-engine.js'
import { findInode, type OpenedFile } from './thread-database.js'

const VERSION = 1

/** Replacements in PostgreSQL's statements, in order. Without `STRICT`, SQLite would store text in a number column. */
const DIFFERENCES: readonly (readonly [RegExp, string])[] = [
  [/ WITH \(fillfactor = \d+\)/, ''],
  [/(?<=^CREATE TABLE .*\))$/s, ' STRICT'],
  [/ WITHOUT ROWID$/, ' STRICT, WITHOUT ROWID'],
  [/\bbigint GENERATED ALWAYS AS IDENTITY(?: PRIMARY KEY)?/, 'INTEGER PRIMARY KEY'],
  [/\b(?:big|small)?int(?:eger)?\b/g, 'INTEGER'],
  [/\btext(?: COLLATE "C")?/g, 'TEXT'],
  [/\bbytea PRIMARY KEY/g, 'BLOB NOT NULL UNIQUE'],
  [/\bbytea\b/g, 'BLOB'],
  [/DEFAULT ''/g, "DEFAULT x''"],
  [/ REFERENCES \w+(?: \(\w+\))?/g, ''],
  [/ NULLS FIRST/g, '']
]

/** Translates a PostgreSQL statement that creates a table or an index to SQLite. It may contain `WITHOUT ROWID`. */
function translateToSqlite(statement: string): string {
  return DIFFERENCES.reduce((text, [pattern, replacement]) => text.replace(pattern, replacement), statement)
}

/**
 * Prepares the tables of a file on the caller's thread, so that faults of the file are reported at once.
 *
 * @param numbers - name of the table that contains the version, with the columns `name` and `number`
 * @returns absolute path and inode of the file, so that threads open the same file
 * @throws Error if the file cannot be opened, or its tables have another version
 */
export function prepareFile(
  file: string,
  engine: EngineName,
  statements: readonly string[],
  numbers: string
): OpenedFile {
  const connection = openConnection(file, engine, { synchronous: 'FULL' })
  try {
    prepareTables(connection, statements, numbers)
    return isFile(file) ? { file: resolve(file), inode: findInode(file) } : { file, inode: undefined }
  } finally {
    connection.close()
  }
}

/**
 * Creates tables if they are missing. If two processes start together, only one creates them. The version of the tables
 * is a row, because `user_version` belongs to the application.
 *
 * @throws Error if the tables have another version
 */
export function prepareTables(connection: SqliteConnection, statements: readonly string[], numbers: string): void {
  try {
    connection.exec('BEGIN IMMEDIATE')
    if (connection.prepare('SELECT 1 FROM sqlite_master WHERE name = ?').get(numbers) === undefined) {
      for (const text of statements) connection.exec(translateToSqlite(text))
      connection.exec(`INSERT INTO ${numbers} (name, number) VALUES ('version', ${String(VERSION)})`)
    }
    const version = connection.prepare(`SELECT number FROM ${numbers} WHERE name = 'version'`).get()?.number
    if (version !== VERSION) {
      throw new Error(`express-did-auth: the database has tables of version ${String(version)}, not ${String(VERSION)}`)
    }
    connection.exec('COMMIT')
  } catch (error) {
    rollBack(connection)
    throw addSqliteCode(error)
  }
}
