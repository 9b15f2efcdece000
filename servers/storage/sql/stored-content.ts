import { createHash } from 'node:crypto'
import type { SqlRow } from 'express-did-auth/server-kit'
import { getErrorCode } from '../../config/startup-error.js'
import type { ContentInfo, ObjectStore, StoredContent } from '../content-store.js'
import { ServerError } from '../../http/server-error.js'
import { isMissing, toStorageError } from '../storage-error.js'
import { computeCidFromLeaves, LEAF_BYTES } from '../unixfs-blocks.js'

/** Content up to this size is in its row, larger content in an object. */
export const MAX_ROW_BYTES = 65_536

/** New content in the form for the database: its bytes if they belong in the row, otherwise the name of an object. */
export interface ContentRow extends ContentInfo {
  readonly leafHashes: Uint8Array
  readonly bytes?: Uint8Array
  readonly object?: { readonly name: string; readonly isUploaded: boolean }
}

/** Result of a write whose object must be uploaded first. Only the object's name is stored, as garbage. */
export const UPLOAD_NEEDED = { upload: true } as const
export type UploadNeeded = typeof UPLOAD_NEEDED

/** Stored state of content. Content that has neither bytes nor object is damaged. */
export interface FoundContent extends Omit<ContentRow, 'object'> {
  readonly object?: string
}

const HASH_BYTES = 32

/** Returns content that is verified: bytes of a row before, by their cid; pieces of an object when read, by a hash. */
export function createStoredContent(found: FoundContent, objects: Pick<ObjectStore, 'read'>): StoredContent {
  const { cid, byteCount } = found
  const pieces = async (): Promise<AsyncIterable<Uint8Array>> => {
    const all = verifyPieces(found, objects)
    const first = await all.next()
    // The first piece is released when it is read. Reading the rest may take minutes.
    const ahead = first.done === true ? [] : [first.value]
    return (async function* () {
      try {
        if (ahead.length > 0) yield* ahead.splice(0)
        yield* all
      } finally {
        await all.return(undefined)
      }
    })()
  }
  const bytes = async (): Promise<Uint8Array> => {
    if (found.bytes !== undefined) return found.bytes
    const all: Uint8Array[] = []
    for await (const piece of verifyPieces(found, objects)) all.push(piece)
    return Buffer.concat(all)
  }
  return { cid, byteCount, bytes, pieces }
}

async function* verifyPieces(
  { bytes, object, leafHashes, byteCount }: FoundContent,
  objects: Pick<ObjectStore, 'read'>
): AsyncGenerator<Uint8Array, void, undefined> {
  if (bytes !== undefined) {
    yield bytes
    return
  }
  if (object === undefined) throw new ServerError('ERR_CONTENT_MISSING')
  let [start, left] = [0, byteCount]
  const leaf: Uint8Array[] = []
  let hash = createHash('sha256')
  try {
    for await (const piece of objects.read(object)) {
      leaf.push(piece)
      hash.update(piece)
      left -= piece.length
      if (left > 0 && (byteCount - left) % LEAF_BYTES !== 0) continue
      const isLeaf = hash.digest().equals(leafHashes.subarray(start, start + HASH_BYTES))
      if (!isLeaf) throw new ServerError('ERR_CONTENT_MISSING')
      start += HASH_BYTES
      hash = createHash('sha256')
      // Each piece is released once it was read.
      while (leaf.length > 0) yield* leaf.splice(0, 1)
    }
  } catch (error) {
    throw getErrorCode(error) === 'ENOENT'
      ? new ServerError('ERR_CONTENT_MISSING', { cause: error })
      : toStorageError(error)
  }
  if (left !== 0) throw new ServerError('ERR_CONTENT_MISSING')
}

/** Whether content is stored and undamaged to its last byte. */
export async function isWhole(content: StoredContent | undefined): Promise<boolean> {
  try {
    // Each piece is verified by reading it.
    if (content !== undefined) for await (const _piece of await content.pieces());
    return content !== undefined
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}

/** Converts a row to stored content. Bytes and object are omitted if bytes or hashes do not match the cid. */
export function toFoundContent(row: SqlRow): FoundContent {
  const { cid, byte_count, leaf_hashes, object, bytes } = row
  const info = { cid: String(cid), byteCount: Number(byte_count) }
  const leafHashes = toBytes(leaf_hashes) ?? new Uint8Array()
  const inRow = toBytes(bytes)
  const hashes = inRow === undefined ? leafHashes : createHash('sha256').update(inRow).digest()
  if (computeCidFromLeaves(hashes, inRow?.length ?? info.byteCount) !== info.cid) return { ...info, leafHashes }
  return {
    ...info,
    leafHashes,
    ...(inRow !== undefined && { bytes: inRow }),
    ...(typeof object === 'string' && { object })
  }
}

function toBytes(value: unknown): Uint8Array | undefined {
  return value instanceof Uint8Array ? value : undefined
}
