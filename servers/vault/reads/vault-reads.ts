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
const LISTING_BYTES = 32
/** What is held of an entry that is listed: its id alone, or all but the text of its key. */
const ID_BYTES = 128
const ENTRY_BYTES = 192

/** The bare array of all content under a key. */
export function listAnswer(read: ReadEntry, key: string, ids: readonly string[]): EntriesAnswer<string> {
  return {
    entries: ids,
    listedBytes: ids.length * ID_BYTES,
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
    listedBytes: listedBytesOf(entries),
    before: ({ key, id }, index) =>
      `${index === 0 ? start : '},'}{"key":${JSON.stringify(key)},"id":"${id}","content":`,
    end: entries.length === 0 ? `${start}]}` : '}]}',
    read: ({ key, id }) => read(key, id)
  }
}

/** Every key of an owner with the ids and sizes of its entries, which stand together. */
export function keysAnswer(entries: readonly KeyedEntry[]): EntriesAnswer<KeyedEntry> {
  const start = '{"keys":['
  const beforeKey = (key: string, index: number): string =>
    `${index === 0 ? start : ']},'}{"key":${JSON.stringify(key)},"entries":[`
  return {
    entries,
    listedBytes: listedBytesOf(entries),
    before: ({ key, id, byteCount }, index) =>
      `${key === entries[index - 1]?.key ? ',' : beforeKey(key, index)}{"id":"${id}","size":${byteCount}}`,
    end: entries.length === 0 ? `${start}]}` : ']}]}'
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
  turns.spend(entries.length * LISTING_BYTES)
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

/** Keys may be most of what is held. */
function listedBytesOf(entries: readonly KeyedEntry[]): number {
  return entries.reduce((sum, { key }) => sum + ENTRY_BYTES + Buffer.byteLength(key), 0)
}

/** A strong validator: the same ids in the same order are the same bytes. */
export function etagOf(ids: readonly string[]): string {
  return `"${createHash('sha256').update(ids.join('')).digest('base64url')}"`
}
