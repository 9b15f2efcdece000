import type { ContentInfo, EntryWrite, Usage } from './content-store.js'
import type { Refusal } from './storage-error.js'

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
