import { randomBytes } from 'node:crypto'
import { readFile, rm, writeFile } from 'node:fs/promises'
import type { ContentInfo, EntryWrite, FileWrite, NewContent } from './content-store.js'
import type { Spool } from './files/spool.js'
import type { ObjectStore } from './object-store.js'
import { ServerError } from '../http/server-error.js'
import { isMissing, storageFailure } from './storage-error.js'
import { storedContent, type FoundContent } from './stored-content.js'
import { isCid } from './unixfs-blocks.js'

/** Content up to so many bytes lies in its row, larger content in an object. */
export const MAX_ROW_BYTES = 65_536

/** New content as a database gets it: its bytes where they are to lie in the row, else the name of an object. */
export interface ContentRow extends ContentInfo {
  readonly leafHashes: Uint8Array
  readonly bytes?: Uint8Array
  readonly object?: { readonly name: string; readonly isUploaded: boolean }
}

/** A write of an entry as a database gets it. */
export type EntryRequest = Omit<EntryWrite, 'content'> & { readonly content: ContentRow }

/** A post of a file as a database gets it. */
export type FileRequest = Omit<FileWrite, 'content'> & { readonly content: ContentRow }

/** An unfinished upload is garbage after so long. */
export const UPLOAD_SECONDS = 3_600

/**
 * What a database answers to a write that needs an object: nothing of it was done, but the object's name is garbage now. The
 * object is to be written, and the write made once more.
 */
export interface UploadNeeded {
  readonly upload: true
}

/** A name that was never used. */
function newObjectName(cid: string): string {
  return `${cid}.${randomBytes(8).toString('hex')}`
}

/** Whether an object may be ours: a bucket or a folder may have what others put there. */
export function isObjectName(name: string): boolean {
  return isCid(name.slice(0, -17)) && /^\.[0-9a-f]{16}$/.test(name.slice(-17))
}

/** A collector is faster than an upload once, where a clock jumps or a process was stopped; not twice. */
const MAX_UPLOADS = 3

/**
 * Brings large content to the object store before a database takes it into use, so that no end of the process in between
 * loses content or leaves an object behind that nothing knows of.
 */
export class ObjectWriter {
  readonly #objects: ObjectStore
  readonly #spool: Spool

  constructor(objects: ObjectStore, spool: Spool) {
    this.#objects = objects
    this.#spool = spool
  }

  /**
   * @param write - one transaction of the database
   * @returns what the write answered, and whether an object was written for it
   * @throws as `write`; ServerError ERR_STORAGE_FULL, ERR_STORAGE
   */
  async store<T extends object | undefined>(
    content: NewContent,
    write: (row: ContentRow) => Promise<T | UploadNeeded>
  ): Promise<{ outcome: T; isUploaded: boolean }> {
    const { cid, byteCount, jsonByteCount, leafHashes, source } = content
    const info = { cid, byteCount, jsonByteCount, leafHashes: ownBytes(leafHashes) }
    try {
      if (byteCount <= MAX_ROW_BYTES) {
        const bytes = 'file' in source ? await readFile(source.file) : source
        const outcome = await write({ ...info, bytes: ownBytes(bytes) })
        if (!isUploadNeeded(outcome)) return { outcome, isUploaded: false }
      }
      for (let uploads = 0; uploads < MAX_UPLOADS; uploads += 1) {
        const name = newObjectName(cid)
        const first = await write({ ...info, object: { name, isUploaded: false } })
        if (!isUploadNeeded(first)) return { outcome: first, isUploaded: false }
        await this.#upload(name, source)
        const second = await write({ ...info, object: { name, isUploaded: true } })
        if (!isUploadNeeded(second)) return { outcome: second, isUploaded: true }
      }
    } catch (error) {
      throw storageFailure(error)
    }
    throw new ServerError('ERR_STORAGE', { detail: 'each upload was collected' })
  }

  async #upload(name: string, source: NewContent['source']): Promise<void> {
    if ('file' in source) {
      await this.#objects.put(name, source.file)
      return
    }
    const file = this.#spool.newFile()
    try {
      await writeFile(file, source, { mode: 0o600, flag: 'wx' })
      await this.#objects.put(name, file)
    } finally {
      await rm(file, { force: true })
    }
  }
}

/** An object that nothing uses. */
export interface Garbage {
  readonly object: string
  /** Its bytes first. */
  readonly overwrite: boolean
}

/**
 * In SQL, the moment at which the slowest reader of a removed object has read it to its end: 5 s, and 4 KiB/s from then on,
 * as downloads are bounded.
 */
export const READ_UNTIL = 'since + 5 + byte_count / 4096'

/** The time up to which a collector looks at `READ_UNTIL`: any, where nothing is kept for readers. */
export function readUntil(nowSeconds: number, { breaksReaders = false }: ObjectStore, isFull: boolean): number {
  return breaksReaders && !isFull ? nowSeconds : Number.MAX_SAFE_INTEGER
}

/**
 * Deletes objects, also those behind one that cannot be deleted.
 *
 * @returns the names of those that are deleted, and the first failure
 */
export async function deleteGarbage(
  objects: Pick<ObjectStore, 'delete'>,
  garbage: readonly Garbage[]
): Promise<{ deleted: string[]; failure: unknown }> {
  const deleted: string[] = []
  let failure: unknown
  for (const { object, overwrite } of garbage) {
    try {
      await objects.delete(object, { overwrite })
      deleted.push(object)
    } catch (error) {
      failure ??= error
    }
  }
  return { deleted, failure }
}

function isUploadNeeded(outcome: object | undefined): outcome is UploadNeeded {
  return outcome !== undefined && 'upload' in outcome
}

/** What crosses threads is copied with all of the memory that it is a view of. */
function ownBytes(bytes: Uint8Array): Uint8Array {
  return bytes.byteLength === bytes.buffer.byteLength ? bytes : new Uint8Array(bytes)
}

/** What storing content needs of a store. */
export interface ContentPlace {
  readonly objects: Pick<ObjectStore, 'read'>
  readonly writer: ObjectWriter
  readonly find: (cid: string) => Promise<FoundContent | undefined>
  readonly repair: (content: NewContent) => Promise<void>
}

/**
 * Stores content. Large content that was there before is read, and repaired where it is damaged, since its writer is told
 * that it is stored; small content was compared in the write's transaction.
 */
export async function storeContent<T extends object>(
  { objects, writer, find, repair }: ContentPlace,
  content: NewContent,
  write: (row: ContentRow) => Promise<T | UploadNeeded>
): Promise<T> {
  const { outcome, isUploaded } = await writer.store(content, write)
  const mayBeDamaged = !isUploaded && content.byteCount > MAX_ROW_BYTES
  if (mayBeDamaged && !(await isSound(await find(content.cid), objects))) await repair(content)
  return outcome
}

async function isSound(found: FoundContent | undefined, objects: Pick<ObjectStore, 'read'>): Promise<boolean> {
  if (found?.object === undefined) return found?.bytes !== undefined
  try {
    for await (const _ of await storedContent(found, objects).pieces());
    return true
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}
