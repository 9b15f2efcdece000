/** Worker thread of a SQLite store, which runs verbs on its database. */
import { parentPort, workerData } from 'node:worker_threads'
import { sqliteDialect } from '../sql/dialect.js'
import { collectVerbs } from '../sql/query.js'
import * as sessionVerbs from '../sql/session-verbs.js'
import * as storeVerbs from '../sql/store-verbs.js'
import { createLaterSteps, createTables } from '../sql/tables.js'
import { prepareTables } from './prepare-tables.js'
import { openThreadDatabase, serveSqlite, type ThreadDatabase } from './serve-sqlite.js'

if (parentPort === null) throw new Error('express-did-auth: this file is started by sqliteStore')
const database = workerData as ThreadDatabase
const { connection, assertInPlace } = openThreadDatabase(database)
if (database.inode === undefined) {
  prepareTables(connection, createTables(sqliteDialect), 'did_auth_numbers', createLaterSteps(sqliteDialect))
}
serveSqlite(parentPort, connection, {
  verbs: collectVerbs(sessionVerbs, storeVerbs),
  dialect: sqliteDialect,
  beforeGroup: assertInPlace
})
