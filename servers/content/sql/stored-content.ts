import { createHash, randomBytes } from 'node:crypto'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { getErrorCode } from '../../config/startup-error.js'
import type { NewContent, ObjectStore, StoredContent } from '../content-store.js'
import { ServerError } from '../../http/server-error.js'
import type { Spool } from '../files.js'
import { isMissing, toStorageError } from '../storage-error.js'
import { LEAF_BYTES } from '../unixfs-blocks.js'
import type { RunContentVerb } from './content-dialect.js'
import { discardUpload, findContents, repairContent } from './content-steps.js'
import { MAX_ROW_BYTES, type ContentRow, type FoundContent, type UploadNeeded } from './rows.js'

const HASH_BYTES = 32
/**
 * Maximum number of uploads for one write. A collector may delete an upload if the clock jumps or the process pauses.
 */
const MAX_UPLOADS = 3

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

/** Dependencies of the writer of content. */
interface WriterParts {
  readonly run: RunContentVerb
  readonly objects: ObjectStore
  readonly spool: Spool
  readonly nowSeconds: () => number
}

/**
 * Creates the writer of content. It uploads a large object after its name is registered as garbage, and before content
 * refers to it. If the process ends in between, no content is lost, and the object is deleted later.
 */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- its type is what it returns
export function createContentWriter({ objects, spool, run, nowSeconds }: WriterParts) {
  async function upload(name: string, source: NewContent['source']): Promise<void> {
    if ('file' in source) {
      await objects.put(name, source.file, source.handle)
      return
    }
    const file = spool.newFile()
    try {
      await writeFile(file, source, { mode: 0o600, flag: 'wx' })
      await objects.put(name, file)
    } finally {
      await rm(file, { force: true })
    }
  }

  async function write<T extends object | undefined>(
    { cid, byteCount, leafHashes, source }: NewContent,
    verb: (row: ContentRow) => Promise<T | UploadNeeded>
  ): Promise<{ outcome: T; isUploaded: boolean }> {
    const info = { cid, byteCount, leafHashes: copyView(leafHashes) }
    try {
      if (byteCount <= MAX_ROW_BYTES) {
        const bytes = 'file' in source ? await readFile(source.file) : source
        const outcome = await verb({ ...info, bytes: copyView(bytes) })
        if (!isUploadNeeded(outcome)) return { outcome, isUploaded: false }
      }
      for (let uploads = 0; uploads < MAX_UPLOADS; uploads += 1) {
        const name = `${cid}.${randomBytes(8).toString('hex')}`
        const first = await verb({ ...info, object: { name, isUploaded: false } })
        if (!isUploadNeeded(first)) return { outcome: first, isUploaded: false }
        await upload(name, source)
        const second = await verb({ ...info, object: { name, isUploaded: true } }).catch(async (error: unknown) => {
          const code = getErrorCode(error)
          const kind = code === 'ERR_TAKEN_DOWN' ? 'takedown' : 'removed'
          // A refused write does not use the object. After any other failure, the object may be in use.
          if (code !== 'ERR_STORAGE') await run(discardUpload, { cid, byteCount, name }, kind, nowSeconds())
          throw error
        })
        if (!isUploadNeeded(second)) return { outcome: second, isUploaded: true }
        // The collector may have tried to delete the object before it existed, and may forget its name after that.
        await objects.delete(name)
      }
    } catch (error) {
      throw toStorageError(error)
    }
    throw new ServerError('ERR_STORAGE', { detail: 'the uploads were deleted as garbage' })
  }

  async function repair(content: NewContent): Promise<void> {
    await write(content, (row) => run(repairContent, row, nowSeconds()))
  }

  return {
    repair,

    /**
     * Stores content. If large content is already stored, it is verified, and repaired if it is damaged. Small content
     * is compared in the write's transaction.
     *
     * @param verb - writes the row
     * @throws as `verb`; ServerError ERR_STORAGE_FULL, ERR_STORAGE
     */
    async store<T extends object>(
      content: NewContent,
      verb: (row: ContentRow) => Promise<T | UploadNeeded>
    ): Promise<T> {
      const { outcome, isUploaded } = await write(content, verb)
      if (isUploaded || content.byteCount <= MAX_ROW_BYTES) return outcome
      const [stored] = await run(findContents, [content.cid])
      if (!(await isWhole(stored && createStoredContent(stored, objects)))) await repair(content)
      return outcome
    }
  }
}

function isUploadNeeded(outcome: object | undefined): outcome is UploadNeeded {
  return outcome !== undefined && 'upload' in outcome
}

/** Copies bytes that are a view of a larger buffer: a message to a thread would otherwise contain the whole buffer. */
function copyView(bytes: Uint8Array): Uint8Array {
  return bytes.byteLength === bytes.buffer.byteLength ? bytes : new Uint8Array(bytes)
}
