import type { ContentInfo, KeyedEntry, Usage } from '../storage/content-store.js'
import type { Quota } from './vault.js'

/** A JSON text about entries, which may be thousands. It is sent while it is read. */
export interface EntriesAnswer {
  /** Length of the whole text in bytes, which is known before any content is read. */
  readonly byteCount: number
  readonly entries: readonly ContentInfo[]
  /** The key of an entry. */
  readonly keyOf: (index: number) => string
  /** Whether the content of each entry stands after what is before it. */
  readonly hasContent: boolean
  /** What stands before the content of an entry. */
  readonly before: (index: number) => string
  /** What stands after the last. */
  readonly end: string
}

/** The bare array of all content under a key. */
export function listAnswer(key: string, entries: readonly ContentInfo[]): EntriesAnswer {
  return withByteCount({
    entries,
    keyOf: () => key,
    hasContent: true,
    before: (index) => (index === 0 ? '[' : ','),
    end: entries.length === 0 ? '[]' : ']'
  })
}

/** Every entry of an owner with its content, in the order of writing. */
export function backupAnswer(did: string, entries: readonly KeyedEntry[]): EntriesAnswer {
  const start = `{"did":${JSON.stringify(did)},"entries":[`
  return withByteCount({
    entries,
    keyOf: (index) => entries[index]?.key ?? '',
    hasContent: true,
    before: (index) => {
      const { key = '', cid = '' } = entries[index] ?? {}
      return `${index === 0 ? start : '},'}{"key":${JSON.stringify(key)},"id":"${cid}","content":`
    },
    end: entries.length === 0 ? `${start}]}` : '}]}'
  })
}

/** Every key of an owner with the ids and sizes of its entries: keys in the order of their first entries. */
export function keysAnswer(entries: readonly KeyedEntry[]): EntriesAnswer {
  const start = '{"keys":['
  const grouped = groupByKey(entries)
  return withByteCount({
    entries: grouped,
    keyOf: (index) => grouped[index]?.key ?? '',
    hasContent: false,
    before: (index) => {
      const { key = '', cid = '', byteCount = 0 } = grouped[index] ?? {}
      const isFirstOfKey = index === 0 || key !== grouped[index - 1]?.key
      const opening = `${index === 0 ? start : ']},'}{"key":${JSON.stringify(key)},"entries":[`
      return `${isFirstOfKey ? opening : ','}{"id":"${cid}","size":${byteCount}}`
    },
    end: grouped.length === 0 ? `${start}]}` : ']}]}'
  })
}

/** What `GET /storage` shows: bytes and entries, used and left. Never less than nothing, where the quota was lowered. */
export function storageAnswer(
  { maxBytes, maxEntries }: Quota,
  { byteCount, entryCount }: Usage
): Record<string, number> {
  return {
    used: byteCount,
    available: Math.max(0, maxBytes - byteCount),
    usedEntries: entryCount,
    availableEntries: Math.max(0, maxEntries - entryCount)
  }
}

function groupByKey(entries: readonly KeyedEntry[]): KeyedEntry[] {
  const groups = new Map<string, KeyedEntry[]>()
  for (const entry of entries) {
    const group = groups.get(entry.key)
    if (group === undefined) groups.set(entry.key, [entry])
    else group.push(entry)
  }
  return [...groups.values()].flat()
}

function withByteCount(answer: Omit<EntriesAnswer, 'byteCount'>): EntriesAnswer {
  const { entries, hasContent, before, end } = answer
  const byteCount = entries.reduce(
    (sum, { jsonByteCount }, index) => sum + Buffer.byteLength(before(index)) + (hasContent ? jsonByteCount : 0),
    Buffer.byteLength(end)
  )
  return { ...answer, byteCount }
}
