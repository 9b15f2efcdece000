import { inTransaction, type SqlConnection } from './sqlite-engine.js'

/** Version of the tables that this package writes. */
const VERSION = 1

/** What SQLite has in place of what PostgreSQL has, one after the other. `STRICT`: it would else keep a text for a number. */
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

/** A statement that makes a table or an index in PostgreSQL, as it makes the same one in SQLite; also `WITHOUT ROWID`. */
export function inSqlite(statement: string): string {
  return DIFFERENCES.reduce((text, [pattern, replacement]) => text.replace(pattern, replacement), statement)
}

/**
 * Creates tables where they are missing, so that of two processes that start together one does it. Their version is a row of
 * one of them and not `user_version`, which belongs to the application.
 *
 * @param numbers - the table with the columns `name` and `number`
 * @throws Error when another version made the tables
 */
export function prepareTables(connection: SqlConnection, statements: readonly string[], numbers: string): void {
  inTransaction(connection, () => {
    if (connection.prepare('SELECT 1 FROM sqlite_master WHERE name = ?').get(numbers) === undefined) {
      for (const text of statements) connection.exec(inSqlite(text))
      connection.exec(`INSERT INTO ${numbers} (name, number) VALUES ('version', ${String(VERSION)})`)
    }
    const found = connection.prepare(`SELECT number FROM ${numbers} WHERE name = 'version'`).get()?.number
    if (found === VERSION) return
    throw new Error(`express-did-auth: the database has tables of version ${String(found)}, not ${String(VERSION)}`)
  })
}
