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
  /** Whether no byte of it is kept any more, but what other content shares. */
  isOutOfFile: boolean
}

const COUNT = `
  SELECT count(*) AS entryCount, count(DISTINCT owner) AS userCount FROM entries WHERE cid = ?`

const UNCOUNT = `
  UPDATE owners SET byte_count = owners.byte_count - gone.bytes, entry_count = owners.entry_count - gone.number
  FROM (SELECT owner, sum(byte_count) AS bytes, count(*) AS number FROM entries WHERE cid = ? GROUP BY owner) AS gone
  WHERE owners.id = gone.owner`

/**
 * Removes content from the entries of everybody, with its bytes and its pin, in one transaction; its pin, and blocks
 * that it left, also where no entry has it any more. Its owners may store it anew.
 *
 * What is removed is overwritten when the database has `secureDelete`; the log of changes has it until it is truncated.
 */
export function takeDown({ database, contents, intents }: TakedownParts, cid: string, isDryRun: boolean): Takedown {
  const count = database.prepare<[string], Omit<Takedown, 'isOutOfFile'>>(COUNT)
  const none = { entryCount: 0, userCount: 0 }
  if (isDryRun) return { ...(count.get(cid) ?? none), isOutOfFile: true }
  const remove = database.transaction(() => {
    const found = count.get(cid) ?? none
    // Also what no entry has: a pin may have outlived its entries.
    intents.unwant(cid)
    // What was removed while it was damaged may have left blocks that nothing uses.
    if (found.entryCount === 0) return { found, isAllGone: false }
    database.prepare<[string]>(UNCOUNT).run(cid)
    database.prepare<[string]>('DELETE FROM entries WHERE cid = ?').run(cid)
    return { found, isAllGone: contents.remove(cid) }
  })
  const { found, isAllGone } = remove.immediate()
  // Where other content cannot be read, nobody knows whether it shares what is left: that stays.
  const isOutOfFile = isAllGone || recountBlocks(database, 'SELECT DISTINCT cid FROM entries', false).unreadable === 0
  return { ...found, isOutOfFile }
}
