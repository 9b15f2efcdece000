import {
  CHALLENGE_TABLES,
  FIRST_NUMBERS,
  inTransaction,
  NUMBERS_TABLE,
  SCHEMA_VERSION,
  SESSION_TABLES
} from './schema.js'
import type { SqlConnection } from './sqlite-engine.js'

/**
 * Creates the tables where they are missing. All in one transaction, so that of two processes that start together one does
 * it and the other finds it done.
 *
 * The version is a row and not `user_version`, which belongs to the application when other tables lie beside ours.
 *
 * @throws Error when another version of this package made the tables
 */
export function prepareTables(connection: SqlConnection): void {
  inTransaction(connection, () => {
    connection.exec(NUMBERS_TABLE)
    const version = connection.prepare("SELECT number FROM did_auth_numbers WHERE name = 'version'").get()?.number
    if (version === SCHEMA_VERSION) return
    if (version !== undefined) {
      const ours = String(SCHEMA_VERSION)
      throw new Error(`express-did-auth: the database has tables of version ${String(version)}, not ${ours}`)
    }
    for (const text of [...SESSION_TABLES, ...CHALLENGE_TABLES, FIRST_NUMBERS]) connection.exec(text)
  })
}
