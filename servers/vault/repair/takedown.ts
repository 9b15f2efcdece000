import { recountBlocks } from '../../shared/content/content-recount.js'
import type { ContentStore } from '../../shared/content/content-store.js'
import type { SqliteFile } from '../../shared/content/database.js'
import type { PinIntents } from '../pins/pin-intents.js'

/** What a takedown works on. */
export interface TakedownParts {
  database: SqliteFile
  contents: ContentStore
  intents: PinIntents
}

/** What a takedown removed, or would. */
export interface Takedown {
  entryCount: number
  userCount: number
}

const COUNT = `
  SELECT count(*) AS entryCount, count(DISTINCT owner) AS userCount FROM entries WHERE cid = ?`

const UNCOUNT = `
  UPDATE owners SET byte_count = owners.byte_count - gone.bytes, entry_count = owners.entry_count - gone.number
  FROM (SELECT owner, sum(byte_count) AS bytes, count(*) AS number FROM entries WHERE cid = ? GROUP BY owner) AS gone
  WHERE owners.id = gone.owner`

/**
 * Removes content from the entries of everybody, with its bytes and its pin, in one transaction; its pin also
 * where no entry has it any more. Its owners may store it anew.
 */
export function takeDown({ database, contents, intents }: TakedownParts, cid: string, isDryRun: boolean): Takedown {
  const count = database.prepare<[string], Takedown>(COUNT)
  const none = { entryCount: 0, userCount: 0 }
  if (isDryRun) return count.get(cid) ?? none
  // What is removed is overwritten as well: SQLite would leave it in the file until its place is used again.
  database.pragma('secure_delete = ON')
  const remove = database.transaction(() => {
    const found = count.get(cid) ?? none
    // Also what no entry has: a pin may have outlived its entries.
    intents.unwant(cid)
    if (found.entryCount === 0) return { found, isAllGone: true }
    database.prepare<[string]>(UNCOUNT).run(cid)
    database.prepare<[string]>('DELETE FROM entries WHERE cid = ?').run(cid)
    return { found, isAllGone: contents.remove(cid) }
  })
  const { found, isAllGone } = remove.immediate()
  if (!isAllGone) recountBlocks(database, 'SELECT DISTINCT cid FROM entries', false)
  // So that the bytes leave the log of changes too. A reader may be in the way; then it happens with the next checkpoint.
  if (found.entryCount > 0) database.pragma('wal_checkpoint(TRUNCATE)')
  return found
}
