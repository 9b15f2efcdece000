import type { NewContent } from './content-store.js'
import type { ObjectStore } from './object-store.js'
import { MAX_ROW_BYTES, type ContentRow, type ObjectWriter, type UploadNeeded } from './object-writer.js'
import { isMissing } from './storage-error.js'
import { storedContent, type FoundContent } from './stored-content.js'

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
