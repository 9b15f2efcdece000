/** Worker thread of a content store, which runs verbs on its database. */
import { parentPort, workerData } from 'node:worker_threads'
import {
  isDamaged,
  openThreadDatabase,
  serveSqlite,
  getSqliteCode,
  type ThreadDatabase
} from 'express-did-auth/server-kit'
import { deleteReserve } from '../disk-space.js'
import { sqliteContents } from './content-dialect.js'
import { SQLITE_VERBS } from './sqlite-verbs.js'

/** Settings of a thread of a content store. */
export interface ThreadSettings extends ThreadDatabase {
  /** Flag that the threads share: 1 once one of them has found that the file is damaged. */
  readonly damage: Int32Array
}

/** Codes of a full disk, and of an exceeded disk quota. */
const NO_SPACE: ReadonlySet<string> = new Set(['SQLITE_FULL', 'SQLITE_IOERR_WRITE'])
const MAX_LOG_BYTES = 16_777_216
/** Size of a thread's page cache. Both threads have one. */
const CACHE_KIBIBYTES = 16_384

if (parentPort === null) throw new Error('express-did-auth: this file is started by openContentStore')
const { damage, ...database } = workerData as ThreadSettings
const { file } = database
const { connection, assertInPlace } = openThreadDatabase(database)
// A large write extends the write-ahead log. SQLite truncates the log after a checkpoint.
connection.exec(`PRAGMA journal_size_limit = ${MAX_LOG_BYTES}; PRAGMA cache_size = -${CACHE_KIBIBYTES}`)

serveSqlite(parentPort, connection, {
  verbs: SQLITE_VERBS,
  dialect: sqliteContents,
  /** Refuses writes to a file that is damaged or no longer at its path. */
  beforeGroup() {
    if (damage[0] === 1) throw Object.assign(new Error('the database is damaged'), { code: 'SQLITE_CORRUPT' })
    assertInPlace()
  },
  /** Records damage. Frees space for removals on a full disk: restarts the log, and deletes the reserve file. */
  recover(verb, error) {
    if (isDamaged(error)) damage[0] = 1
    if (!verb.freesSpace || !NO_SPACE.has(getSqliteCode(error))) return false
    try {
      connection.exec('PRAGMA wal_checkpoint(RESTART)')
    } catch {
      // The log stays as it is. The reserve may be enough.
    }
    deleteReserve(file)
    return true
  }
})
