import { createHash } from 'node:crypto'
import { isBytes, type SqlRow } from 'express-did-auth/server-kit'
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

export function toContentInfo({ cid, byte_count }: SqlRow): ContentInfo {
  return { cid: String(cid), byteCount: Number(byte_count) }
}

export function toEntryPlace({ did, key }: SqlRow): EntryPlace {
  return { did: String(did), key: String(key) }
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
  return isBytes(value) ? value : undefined
}
