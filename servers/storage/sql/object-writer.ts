import { randomBytes } from 'node:crypto'
import { readFile, rm, writeFile } from 'node:fs/promises'
import type { VerbMethods } from 'express-did-auth/server-kit'
import { getErrorCode } from '../../config/startup-error.js'
import { ServerError } from '../../http/server-error.js'
import type { NewContent, ObjectStore } from '../content-store.js'
import type { Spool } from '../files.js'
import { toStorageError } from '../storage-error.js'
import type { ContentVerbs } from './content-verbs.js'
import { readPages } from './page-verbs.js'
import { isWhole, MAX_ROW_BYTES, createStoredContent, type ContentRow, type UploadNeeded } from './stored-content.js'

/**
 * Maximum number of uploads for one write. A collector may delete an upload if the clock jumps or the process pauses.
 */
const MAX_UPLOADS = 3

/** Dependencies of the object writer. */
export interface ObjectWriterParts {
  readonly objects: ObjectStore
  readonly spool: Spool
  readonly verbs: VerbMethods<ContentVerbs>
  readonly nowSeconds: () => number
}

/** Writer that stores content in the object store and the database. */
export type ObjectWriter = ReturnType<typeof createObjectWriter>

/**
 * Creates the writer of content. It uploads a large object after its name is registered as garbage, and before content
 * refers to it. If the process ends in between, no content is lost, and the object is deleted later.
 */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- its type is what it returns
export function createObjectWriter({ objects, spool, verbs, nowSeconds }: ObjectWriterParts) {
  async function upload(name: string, source: NewContent['source']): Promise<void> {
    if ('file' in source) {
      await objects.put(name, source.file)
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
          if (code !== 'ERR_STORAGE') await verbs.discardUpload({ cid, byteCount, name }, kind, nowSeconds())
          throw error
        })
        if (!isUploadNeeded(second)) return { outcome: second, isUploaded: true }
      }
    } catch (error) {
      throw toStorageError(error)
    }
    throw new ServerError('ERR_STORAGE', { detail: 'the uploads were deleted as garbage' })
  }

  async function repair(content: NewContent): Promise<void> {
    await write(content, (row) => verbs.repairContent(row, nowSeconds()))
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
      const [stored] = await verbs.findContents([content.cid])
      if (!(await isWhole(stored && createStoredContent(stored, objects)))) await repair(content)
      return outcome
    },

    /** Deletes objects that are garbage. Continues after a failure. @throws the first failure at the end */
    async deleteGarbage(readUntil: number): Promise<void> {
      let failure: unknown
      for await (const { items } of readPages('', (after: string) => verbs.findGarbage(after, readUntil))) {
        const deleted: string[] = []
        for (const { object, overwrite } of items) {
          try {
            await objects.delete(object, { overwrite })
            deleted.push(object)
          } catch (error) {
            failure ??= error
          }
        }
        if (deleted.length > 0) await verbs.forgetGarbage(deleted)
      }
      if (failure !== undefined) throw toStorageError(failure)
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
