import { setTimeout as pause } from 'node:timers/promises'
import type { SqliteFile } from '../../shared/content/database.js'

const TRIES = 5
const PAUSE_MILLISECONDS = 300
/** How long one try waits for readers. Writers wait with it: they and a whole server would stand still for longer. */
const TRY_MILLISECONDS = 20

/**
 * Brings all changes into the database file and empties its log of changes, so that the log has nothing more of what was
 * removed. Waits 1.2 s for readers, and lets others write meanwhile.
 *
 * @returns false when a reader was in the way to the end: the log stays as it is
 */
export async function truncateLog(database: SqliteFile): Promise<boolean> {
  for (let tries = 1; !isTruncated(database); tries += 1) {
    if (tries === TRIES) return false
    await pause(PAUSE_MILLISECONDS)
  }
  return true
}

function isTruncated(database: SqliteFile): boolean {
  // Most of the work keeps no writer waiting.
  database.pragma('wal_checkpoint(PASSIVE)')
  const patience = Number(database.pragma('busy_timeout', { simple: true }))
  database.pragma(`busy_timeout = ${TRY_MILLISECONDS}`)
  try {
    // The first column is `busy`.
    return database.pragma('wal_checkpoint(TRUNCATE)', { simple: true }) === 0
  } finally {
    database.pragma(`busy_timeout = ${patience}`)
  }
}
