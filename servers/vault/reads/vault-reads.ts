import { createHash } from 'node:crypto'
import { DidAuthError } from 'express-did-auth'
import { EntryGone, type ReadEntry } from './entry-reader.js'
import { ReaderGone, type Reader } from './reading-gate.js'
import type { Holder } from './answer-room.js'
import { checkEntries, type CheckedAnswer, type EntriesAnswer, type SharedReading } from './send-entries.js'
import type { KeyedEntry } from '../vault-index.js'

/** Of a key that changes all the time there may be no moment in which all of it can be read. */
const MAX_ATTEMPTS = 5
/** What an entry costs when it is only listed, beside bytes that are read. */
const LISTED_BYTES = 32

/** The bare array of all content under a key. */
export function listAnswer(read: ReadEntry, key: string, ids: readonly string[]): EntriesAnswer<string> {
  return {
    entries: ids,
    before: (_id, index) => (index === 0 ? '[' : ','),
    end: ids.length === 0 ? '[]' : ']',
    read: (id) => read(key, id)
  }
}

/** Every entry of an owner with its content. */
export function backupAnswer(read: ReadEntry, did: string, entries: readonly KeyedEntry[]): EntriesAnswer<KeyedEntry> {
  const start = `{"did":${JSON.stringify(did)},"entries":[`
  return {
    entries,
    before: ({ key, id }, index) =>
      `${index === 0 ? start : '},'}{"key":${JSON.stringify(key)},"id":"${id}","content":`,
    end: entries.length === 0 ? `${start}]}` : '}]}',
    read: ({ key, id }) => read(key, id)
  }
}

/** Lists entries in a turn of its own when they are many, as what it is: thousands of rows. */
export async function listInTurn<Entry>(
  { turns }: Pick<SharedReading, 'turns'>,
  reader: Reader,
  entriesNow: () => readonly Entry[]
): Promise<readonly Entry[]> {
  if (turns.isOver) await turns.next()
  if (reader.destroyed) throw new ReaderGone()
  const entries = entriesNow()
  turns.spend(entries.length * LISTED_BYTES)
  return entries
}

/**
 * Reads an answer that shows entries as they were at one moment: where one is removed under our hands, all is read anew.
 *
 * @throws ServerError ERR_CONTENT_LOST; DidAuthError ERR_BUSY; ReaderGone
 */
export async function checkAtOneMoment<Entry>(
  shared: SharedReading,
  reader: Reader & Holder,
  entriesNow: () => readonly Entry[],
  answerOf: (entries: readonly Entry[]) => EntriesAnswer<Entry>
): Promise<CheckedAnswer & { entries: readonly Entry[] }> {
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
    const entries = await listInTurn(shared, reader, entriesNow)
    try {
      return { ...(await checkEntries(shared, reader, answerOf(entries))), entries }
    } catch (error) {
      if (!(error instanceof EntryGone)) throw error
    }
  }
  throw new DidAuthError('ERR_BUSY')
}

/** A strong validator: the same ids in the same order are the same bytes. */
export function etagOf(ids: readonly string[]): string {
  return `"${createHash('sha256').update(ids.join('')).digest('base64url')}"`
}
