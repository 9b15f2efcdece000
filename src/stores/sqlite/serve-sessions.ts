import type { MessagePort } from 'node:worker_threads'
import { sqliteDialect } from '../sql/dialect.js'
import { collectVerbs } from '../sql/query.js'
import * as sessionVerbs from '../sql/session-verbs.js'
import * as storeVerbs from '../sql/store-verbs.js'
import { createLaterSteps, createTables } from '../sql/tables.js'
import { prepareTables } from './prepare-tables.js'
import { openThreadDatabase, serveSqlite, type ThreadDatabase } from './serve-sqlite.js'

/** Opens the database of a session store, and runs the verbs that its `SqliteThread` sends. */
export function serveSessions(port: MessagePort, database: ThreadDatabase): void {
  const { connection, assertInPlace } = openThreadDatabase(database)
  if (database.inode === undefined) {
    prepareTables(connection, createTables(sqliteDialect), 'did_auth_numbers', createLaterSteps(sqliteDialect))
  }
  serveSqlite(port, connection, {
    verbs: collectVerbs(sessionVerbs, storeVerbs),
    dialect: sqliteDialect,
    beforeGroup: assertInPlace
  })
}
