/** The thread that owns the database of a store. */
import { parentPort, workerData } from 'node:worker_threads'
import { sqliteDialect } from '../sql/dialect.js'
import { STORE_READS, storeVerbsOf } from '../sql/store-verbs.js'
import { TABLES } from '../sql/tables.js'
import { prepareTables } from './prepare-tables.js'
import { serveSqlite } from './serve-sqlite.js'
import { isFile, openConnection, type EngineName } from './sqlite-engine.js'

/** How long a statement may block the thread while another process writes. */
const BUSY_MILLISECONDS = 20

if (parentPort === null) throw new Error('express-did-auth: this file is started by sqliteStore')
const { file, engine } = workerData as { file: string; engine: EngineName }
const connection = openConnection(file, engine, { synchronous: 'FULL', busyMilliseconds: BUSY_MILLISECONDS })
if (!isFile(file)) prepareTables(connection, TABLES, 'did_auth_numbers')
serveSqlite(parentPort, connection, { verbs: storeVerbsOf(sqliteDialect), reads: STORE_READS })
