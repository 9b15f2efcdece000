/** The thread that owns a content store's database. */
import { statSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import { isDamaged, openSqliteConnection, serveSqlite, sqliteCode, type EngineName } from 'express-did-auth/server-kit'
import { useReserve } from '../disk-space.js'
import { REMOVALS } from './content-verbs.js'
import { sqliteVerbs } from './sqlite-verbs.js'

/** What the thread is started with. */
export interface ThreadSettings {
  readonly file: string
  readonly engine: EngineName
  readonly synchronous: 'FULL' | 'NORMAL'
}

/** How long a statement may hold up the thread while another process writes. */
const BUSY_MILLISECONDS = 20
/** The second is how SQLite reports a disk quota. */
const NO_SPACE: ReadonlySet<string> = new Set(['SQLITE_FULL', 'SQLITE_IOERR_WRITE'])
const MAX_LOG_BYTES = 16_777_216

if (parentPort === null) throw new Error('express-did-auth: this file is started by openContentStore')
const { file, engine, synchronous } = workerData as ThreadSettings
const connection = openSqliteConnection(file, engine, { synchronous, busyMilliseconds: BUSY_MILLISECONDS })
// A large write makes the log of changes long; it gives the disk back once they are in the file.
connection.exec(`PRAGMA journal_size_limit = ${MAX_LOG_BYTES}; PRAGMA cache_size = -32768`)
const { ino: inode } = statSync(file)
let damage: Error | undefined

serveSqlite(parentPort, connection, {
  ...sqliteVerbs(),
  /** Nothing is written to a file that is damaged, or no longer at its path. */
  beforeGroup() {
    if (damage !== undefined) throw damage
    if (statSync(file, { throwIfNoEntry: false })?.ino === inode) return
    throw Object.assign(new Error(`the database is no longer at ${file}`), { code: 'SQLITE_READONLY_DBMOVED' })
  },
  /** Removals need little space and make some: what is in the file already is written over, and the reserve is free. */
  onFailure(verb, error) {
    if (isDamaged(error) && error instanceof Error) damage ??= error
    if (!REMOVALS.has(verb) || !NO_SPACE.has(sqliteCode(error))) return false
    try {
      connection.exec('PRAGMA wal_checkpoint(RESTART)')
    } catch {
      // What cannot be brought into the file stays in the log.
    }
    useReserve(file)
    return true
  }
})
