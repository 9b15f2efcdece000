import type { Quota } from './quota.js'
import type { KeyedEntry, Usage } from './vault-index.js'

/** Entries in the order of `GET /keys`: keys in that of their first entries, and those of a key together. */
export function groupedByKey(entries: readonly KeyedEntry[]): KeyedEntry[] {
  const groups = new Map<string, KeyedEntry[]>()
  for (const entry of entries) {
    const group = groups.get(entry.key)
    if (group === undefined) groups.set(entry.key, [entry])
    else group.push(entry)
  }
  return [...groups.values()].flat()
}

/** What `GET /storage` shows. */
export interface StorageAccount {
  /** Bytes, as `available`. */
  used: number
  available: number
  usedEntries: number
  availableEntries: number
}

/** What is used of a quota, and what is left; never less than nothing, where the quota was lowered. */
export function storageOf(quota: Quota, { byteCount, entryCount }: Usage): StorageAccount {
  return {
    used: byteCount,
    available: Math.max(0, quota.byteCount - byteCount),
    usedEntries: entryCount,
    availableEntries: Math.max(0, quota.entryCount - entryCount)
  }
}
