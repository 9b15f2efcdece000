import { createHash } from 'node:crypto'
import type { SqlRow } from 'express-did-auth/server-kit'
import type { ContentInfo, EntryPlace, PinTask } from '../content-store.js'
import { computeCidFromLeaves } from '../unixfs-blocks.js'

/** Maximum size of content that is stored in its row. Larger content is stored in an object. */
export const MAX_ROW_BYTES = 65_536

/** Result of a write whose object must be uploaded first. Only the object's name is stored, as garbage. */
export const UPLOAD_NEEDED = { upload: true } as const
export type UploadNeeded = typeof UPLOAD_NEEDED

/** New content as a row, with its bytes if it is small, and otherwise with the name of its object. */
export interface ContentRow extends ContentInfo {
  readonly leafHashes: Uint8Array
  readonly bytes?: Uint8Array
  readonly object?: { readonly name: string; readonly isUploaded: boolean }
}

/** Content from a verified row. It is damaged if it has neither bytes nor object. */
export interface FoundContent extends Omit<ContentRow, 'object'> {
  readonly object?: string
}

/** State of a key's list, which is stored in a row of `lists`. */
export interface ListState {
  readonly entryCount: number
  /** Hashes of all entries and their numbers, combined by XOR, so that a change of one entry reads no others. */
  readonly hash: Buffer
}

/** An entry with its number, by which the entries of an owner are ordered. */
export interface Entry extends ContentInfo {
  readonly number: number
}

/** An entry of a list, and whether it is the last one of its key. */
export interface ListedEntry extends Entry {
  readonly isLast: boolean
}

/** State of an empty list. */
export const NO_LIST: ListState = { entryCount: 0, hash: Buffer.alloc(32) }

/** Whether a row contains an entry. Rows that contain only a list have no cid. */
export function isEntry({ cid }: SqlRow): boolean {
  return cid !== null
}

/** Returns the list state in a row; the empty list if the row contains no list. */
export function toListState(row: SqlRow | undefined): ListState {
  if (row === undefined || row.hash === null) return NO_LIST
  return { entryCount: Number(row.entry_count), hash: Buffer.from(row.hash as Uint8Array) }
}

/** Converts the rows of a list: each contains the state of the list, and an entry if there is one. */
export function toList(rows: readonly SqlRow[]): { list: ListState; entries: readonly ListedEntry[] } {
  const entries = rows.filter(isEntry).map((row) => ({ ...toEntry(row), isLast: row.is_last === 1 }))
  return { list: toListState(rows[0]), entries }
}

export function toContentInfo({ cid, byte_count }: SqlRow): ContentInfo {
  return { cid: String(cid), byteCount: Number(byte_count) }
}

export function toEntryPlace({ did, key }: SqlRow): EntryPlace {
  return { did: String(did), key: String(key) }
}

export function toEntry(row: SqlRow): Entry {
  return { number: Number(row.number), ...toContentInfo(row) }
}

/** Converts a row to the state of a file. */
export function toFileState(row: SqlRow): ContentInfo & { readonly expiresAtSeconds: number } {
  return { ...toContentInfo(row), expiresAtSeconds: Number(row.expires_at) }
}

/** Converts a row to a task of the pin ledger. */
export function toTask({ cid, state, revision, attempts, is_in_doubt }: SqlRow): PinTask {
  return {
    cid: String(cid),
    desired: state === 'pin' ? 'pinned' : 'unpinned',
    revision: Number(revision),
    attempts: Number(attempts),
    isInDoubt: is_in_doubt === 1
  }
}

export function listCids(rows: readonly SqlRow[]): string[] {
  return rows.map(({ cid }) => String(cid))
}

/** Parses and verifies a row. Omits bytes and object if the bytes or the leaf hashes do not match the cid. */
export function toFoundContent(row: SqlRow): FoundContent {
  const { cid, byte_count, leaf_hashes, object, bytes } = row
  const info = { cid: String(cid), byteCount: Number(byte_count) }
  const leafHashes = toBytes(leaf_hashes) ?? new Uint8Array()
  const rowBytes = toBytes(bytes)
  const hashes = rowBytes === undefined ? leafHashes : createHash('sha256').update(rowBytes).digest()
  if (computeCidFromLeaves(hashes, rowBytes?.length ?? info.byteCount) !== info.cid) return { ...info, leafHashes }
  return {
    ...info,
    leafHashes,
    ...(rowBytes !== undefined && { bytes: rowBytes }),
    ...(typeof object === 'string' && { object })
  }
}

function toBytes(value: unknown): Uint8Array | undefined {
  return value instanceof Uint8Array ? value : undefined
}
