import { hash } from 'node:crypto'
import type { ContentInfo, Precondition } from './content-store.js'

/** An entry with its number, which is its place in the order of all. */
export interface Entry extends ContentInfo {
  readonly number: number
}

/** What a key's row says of its list. */
export interface ListState {
  readonly entryCount: number
  /** The hashes of its entries, each with its place, as one: by exclusive or, so that adding and removing takes no other. */
  readonly hash: Buffer
}

/** Of a key that has no entries. */
export const NO_LIST: ListState = { entryCount: 0, hash: Buffer.alloc(32) }

/** The ETag of a list, quoted. */
export function etagOf({ hash }: ListState): string {
  return `"${hash.toString('base64url')}"`
}

/** Whether the conditions of a write hold for a list. */
export function isMet({ ifMatch, ifNoneMatch }: Precondition, list: ListState): boolean {
  if (ifNoneMatch === '*' && list.entryCount > 0) return false
  if (ifMatch === undefined) return true
  return ifMatch === '*' ? list.entryCount > 0 : ifMatch.includes(etagOf(list))
}

/** Reads a row of a table of lists. */
export function stateOf(row: Readonly<Record<string, unknown>>): ListState {
  return { entryCount: Number(row.entry_count), hash: Buffer.from(row.hash as Uint8Array) }
}

/** Whether entries are those that a list was written with. */
export function isListOf(entries: readonly Entry[], state: ListState): boolean {
  return entries.length === state.entryCount && hashOf(entries).equals(state.hash)
}

/** The hash of a list of entries. */
export function hashOf(entries: readonly Entry[]): Buffer {
  const sum = Buffer.from(NO_LIST.hash)
  for (const entry of entries) addToHash(sum, entry)
  return sum
}

/** Adds an entry to the hash of a list, or takes it off. */
export function addToHash(sum: Buffer, { number, cid, byteCount, jsonByteCount }: Entry): void {
  const one = hash('sha256', `${number} ${cid} ${byteCount} ${jsonByteCount}`, 'buffer')
  for (let index = 0; index < sum.length; index += 1) sum[index] = (sum[index] ?? 0) ^ (one[index] ?? 0)
}
