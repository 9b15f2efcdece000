import { sqliteDialect, sqlSchema, sqlText, sqlVersionTable } from './sql-text.js'
import type { SqlVerb } from './sql-verb.js'

const VERSION = 1

/**
 * Creates the tables where they are missing. Run in one transaction, so that of two processes that open a new file at
 * once one creates them and the other finds them.
 *
 * The version is a row and not `user_version`, which belongs to the application when the database is its own.
 *
 * @throws Error when a later version of this package made them
 */
export function* createTables(): SqlVerb<void> {
  yield [sqlVersionTable(sqliteDialect)]
  const [row] = yield [sqlText.version]
  if (row === undefined) {
    for (const text of sqlSchema(sqliteDialect)) yield [text]
  } else if (Number(row.number) !== VERSION) {
    throw new Error(`express-did-auth: the database has tables of version ${String(row.number)}, not ${VERSION}`)
  }
}
