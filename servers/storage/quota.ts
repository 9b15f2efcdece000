import type { ContentInfo, EntryWrite, FileWrite, Usage } from './content-store.js'
import type { Refusal } from './storage-error.js'
import { createHash } from 'node:crypto'

/**
 * Whether an owner's quota refuses an entry. One that takes nothing more passes also when the quota was lowered below what
 * is there.
 */
export function overQuota(
  before: Usage,
  replaced: readonly ContentInfo[],
  { byteCount }: ContentInfo,
  { maxBytes, maxEntries }: EntryWrite['quota']
): Refusal | undefined {
  const bytes = replaced.reduce((sum, entry) => sum - entry.byteCount, before.byteCount + byteCount)
  const entries = before.entryCount + 1 - replaced.length
  if (bytes > Math.max(maxBytes, before.byteCount)) {
    return { refused: 'ERR_STORAGE_FULL', detail: `${bytes} bytes with this, at most ${maxBytes}` }
  }
  if (entries <= Math.max(maxEntries, before.entryCount)) return undefined
  return { refused: 'ERR_STORAGE_FULL', detail: `${entries} entries with this, at most ${maxEntries}` }
}

/** What a file counts beside its bytes: its rows and their indexes. */
export const FILE_OVERHEAD_BYTES = 512

/** A file without its bytes. */
export type FileRow = ContentInfo & { readonly expiresAtSeconds: number }

/** What a post says of itself. */
export type Post = Pick<FileWrite, 'did' | 'nowSeconds' | 'ttlSeconds' | 'bounds'>

/** When the time slot of a moment ends. */
export function slotEnd(nowSeconds: number, slotSeconds: number): number {
  return (Math.floor(nowSeconds / slotSeconds) + 1) * slotSeconds
}

/** What stands for a user who posts, so that a table tells no reader who posted how much. */
export function hashOfDid(did: string): string {
  return createHash('sha256').update(did).digest('base64url')
}
