import { createHash } from 'node:crypto'
import { getErrorCode } from '../../config/startup-error.js'
import type { ObjectStore, StoredContent } from '../content-store.js'
import { ServerError } from '../../http/server-error.js'
import { isMissing, toStorageError } from '../storage-error.js'
import { LEAF_BYTES } from '../unixfs-blocks.js'
import type { FoundContent } from './rows.js'

const HASH_BYTES = 32

/** Creates stored content from a row. Pieces of an object are verified by their hashes when they are read. */
export function createStoredContent(content: FoundContent, objects: Pick<ObjectStore, 'read'>): StoredContent {
  const { cid, byteCount } = content
  const pieces = async (): Promise<AsyncIterable<Uint8Array>> => {
    const remaining = verifyPieces(content, objects)
    const first = await remaining.next()
    // `splice` releases the first piece when it is read, because reading the others may take minutes.
    const readAhead = first.done === true ? [] : [first.value]
    return (async function* () {
      try {
        if (readAhead.length > 0) yield* readAhead.splice(0)
        yield* remaining
      } finally {
        await remaining.return(undefined)
      }
    })()
  }
  const bytes = async (): Promise<Uint8Array> => {
    if (content.bytes !== undefined) return content.bytes
    const allPieces: Uint8Array[] = []
    for await (const piece of verifyPieces(content, objects)) allPieces.push(piece)
    return Buffer.concat(allPieces)
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
  let [hashStart, remainingBytes] = [0, byteCount]
  const leafPieces: Uint8Array[] = []
  let hash = createHash('sha256')
  try {
    for await (const piece of objects.read(object)) {
      leafPieces.push(piece)
      hash.update(piece)
      remainingBytes -= piece.length
      if (remainingBytes > 0 && (byteCount - remainingBytes) % LEAF_BYTES !== 0) continue
      const isValid = hash.digest().equals(leafHashes.subarray(hashStart, hashStart + HASH_BYTES))
      if (!isValid) throw new ServerError('ERR_CONTENT_MISSING')
      hashStart += HASH_BYTES
      hash = createHash('sha256')
      // `splice` releases each piece when it is read.
      while (leafPieces.length > 0) yield* leafPieces.splice(0, 1)
    }
  } catch (error) {
    throw getErrorCode(error) === 'ENOENT'
      ? new ServerError('ERR_CONTENT_MISSING', { cause: error })
      : toStorageError(error)
  }
  if (remainingBytes !== 0) throw new ServerError('ERR_CONTENT_MISSING')
}

/** Whether content is stored and completely undamaged. */
export async function isWhole(content: StoredContent | undefined): Promise<boolean> {
  try {
    // Reading verifies each piece.
    if (content !== undefined) for await (const _piece of await content.pieces());
    return content !== undefined
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}
