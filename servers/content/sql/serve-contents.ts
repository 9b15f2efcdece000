import type { MessagePort } from 'node:worker_threads'
import { openThreadDatabase, serveSqlite, getSqliteCode } from 'express-did-auth/server-kit'
import { deleteReserve } from '../disk-space.js'
import { sqliteContents } from './content-dialect.js'
import { SQLITE_VERBS, type ThreadSettings } from './sqlite-verbs.js'

/** Codes of a full disk, and of an exceeded disk quota. */
const NO_SPACE: ReadonlySet<string> = new Set(['SQLITE_FULL', 'SQLITE_IOERR_WRITE'])
const MAX_LOG_BYTES = 16_777_216
/** Size of a thread's page cache. Both threads have one. */
const CACHE_KIBIBYTES = 16_384

/** Opens the database of a content store, and runs the verbs that its `SqliteThread` sends. */
export function serveContents(port: MessagePort, { damage, ...database }: ThreadSettings): void {
  const { file } = database
  const { connection, assertInPlace } = openThreadDatabase(database)
  // A large write extends the write-ahead log. SQLite truncates the log after a checkpoint.
  connection.exec(`PRAGMA journal_size_limit = ${MAX_LOG_BYTES}; PRAGMA cache_size = -${CACHE_KIBIBYTES}`)

  serveSqlite(port, connection, {
    verbs: SQLITE_VERBS,
    dialect: sqliteContents,
    damage,
    beforeGroup: assertInPlace,
    /** Frees space for removals on a full disk: restarts the log, and deletes the reserve file. */
    recover(verb, error) {
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
}
