import { hash } from 'node:crypto'
import type { SqlRow } from 'express-did-auth/server-kit'
import type { ContentInfo, EntryPlace, Precondition } from '../content-store.js'
import { refuse } from '../storage-error.js'

/** What a key's row says of its list. */
export interface ListState {
  readonly entryCount: number
  /** The hashes of its entries with their places as one, by exclusive or: adding and removing needs no other entry. */
  readonly hash: Buffer
}

/** An entry with its number, which is its place in the order of its owner's. */
export interface Entry extends ContentInfo {
  readonly number: number
}

/** Of a key that has no entries. */
export const NO_LIST: ListState = { entryCount: 0, hash: Buffer.alloc(32) }

/** The ETag of a list, quoted. */
export function etagOf({ hash }: ListState): string {
  return `"${hash.toString('base64url')}"`
}

/** @throws what refuses a write whose conditions do not hold for a list */
export function assertMet({ ifMatch, ifNoneMatch }: Precondition, list: ListState): void {
  const isEmpty = list.entryCount === 0
  const isMet = ifMatch === undefined || (ifMatch === '*' ? !isEmpty : ifMatch.includes(etagOf(list)))
  if (!isMet || (ifNoneMatch === '*' && !isEmpty)) refuse({ refused: 'ERR_PRECONDITION', etag: etagOf(list) })
}

/** The list of a row, which has none where nothing was joined. */
export function stateOf(row: SqlRow | undefined): ListState {
  if (row === undefined || row.hash === null) return NO_LIST
  return { entryCount: Number(row.entry_count), hash: Buffer.from(row.hash as Uint8Array) }
}

export function infoOf({ cid, byte_count }: SqlRow): ContentInfo {
  return { cid: String(cid), byteCount: Number(byte_count) }
}

export function placeOf({ did, key }: SqlRow): EntryPlace {
  return { did: String(did), key: String(key) }
}

export function entryOf(row: SqlRow): Entry {
  return { number: Number(row.number), ...infoOf(row) }
}

/** Adds an entry to the hash of a list, or takes it off. */
export function addToHash(sum: Buffer, { number, cid, byteCount }: Entry): void {
  const one = hash('sha256', `${number} ${cid} ${byteCount}`, 'buffer')
  for (let index = 0; index < sum.length; index += 1) sum[index] = (sum[index] ?? 0) ^ (one[index] ?? 0)
}

export function stateOfEntries(entries: readonly Entry[]): ListState {
  const sum = Buffer.from(NO_LIST.hash)
  for (const entry of entries) addToHash(sum, entry)
  return { entryCount: entries.length, hash: sum }
}

/** Whether entries are those that a list was written with. */
export function isListOf(entries: readonly Entry[], state: ListState): boolean {
  return entries.length === state.entryCount && stateOfEntries(entries).hash.equals(state.hash)
}
