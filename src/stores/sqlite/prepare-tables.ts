import { resolve } from 'node:path'
import { isFile, openConnection, rollBack, addCode, type EngineName, type SqlConnection } from './sqlite-engine.js'
import { findInode, type OpenedFile } from './thread-database.js'

const VERSION = 1

/** Replacements in PostgreSQL's statements, in order. Without `STRICT`, SQLite stores a text in a number's column. */
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

/** Translates a statement of PostgreSQL that creates a table or an index to SQLite; also `WITHOUT ROWID`. */
function translateToSqlite(statement: string): string {
  return DIFFERENCES.reduce((text, [pattern, replacement]) => text.replace(pattern, replacement), statement)
}

/**
 * Prepares the tables of a file on the caller's thread, so that what is wrong with it is known at once.
 *
 * @param numbers - the table that has their version, with the columns `name` and `number`
 * @returns the file for the threads, which open no other: its absolute path and its inode
 * @throws Error when the file cannot be opened, or another version made the tables
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
 * Creates tables where they are missing; of two processes that start together one does it. Their version is a row,
 * since `user_version` belongs to the application. @throws Error when another version made the tables
 */
export function prepareTables(connection: SqlConnection, statements: readonly string[], numbers: string): void {
  try {
    connection.exec('BEGIN IMMEDIATE')
    if (connection.prepare('SELECT 1 FROM sqlite_master WHERE name = ?').get(numbers) === undefined) {
      for (const text of statements) connection.exec(translateToSqlite(text))
      connection.exec(`INSERT INTO ${numbers} (name, number) VALUES ('version', ${String(VERSION)})`)
    }
    const found = connection.prepare(`SELECT number FROM ${numbers} WHERE name = 'version'`).get()?.number
    if (found !== VERSION) {
      throw new Error(`express-did-auth: the database has tables of version ${String(found)}, not ${String(VERSION)}`)
    }
    connection.exec('COMMIT')
  } catch (error) {
    rollBack(connection)
    throw addCode(error)
  }
}
