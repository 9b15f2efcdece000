import type { Quota } from './quota.js'
import type { KeyedEntry, Usage } from './vault-index.js'

/** A key with what is under it, as `GET /keys` shows it. */
export interface KeyAccount {
  key: string
  entries: { id: string; size: number }[]
}

/** Keys in the order of their first entries. */
export function keysOf(entries: readonly KeyedEntry[]): { keys: KeyAccount[] } {
  const accounts = new Map<string, KeyAccount>()
  for (const { key, id, byteCount } of entries) {
    const account = accounts.get(key) ?? { key, entries: [] }
    account.entries.push({ id, size: byteCount })
    accounts.set(key, account)
  }
  return { keys: [...accounts.values()] }
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
