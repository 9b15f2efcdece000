import { SQLITE_TABLES } from '../sql/tables.js'
import { inTransaction, type SqlConnection } from './sqlite-engine.js'

/** Version of the tables that this package writes. */
const VERSION = 1

/**
 * Creates the tables where they are missing, so that of two processes that start together one does it. Their version is a
 * row and not `user_version`, which belongs to the application. @throws Error when another version made the tables
 */
export function prepareTables(connection: SqlConnection): void {
  inTransaction(connection, () => {
    if (connection.prepare("SELECT 1 FROM sqlite_master WHERE name = 'did_auth_numbers'").get() === undefined) {
      for (const text of SQLITE_TABLES) connection.exec(text)
      connection.exec(`INSERT INTO did_auth_numbers (name, number) VALUES ('version', ${String(VERSION)})`)
    }
    const found = connection.prepare("SELECT number FROM did_auth_numbers WHERE name = 'version'").get()?.number
    if (found === VERSION) return
    throw new Error(`express-did-auth: the database has tables of version ${String(found)}, not ${String(VERSION)}`)
  })
}
