import { addToHash, type Entry, type ListState } from '../list-state.js'
import type { ContentDatabase, Query } from './content-database.js'

/** Where entries change, and what the list was before. */
export interface ListPlace {
  /** Its number. */
  readonly owner: number
  readonly key: string
  readonly list: ListState
}

/** Changes entries of one key with all that follows from them. Steps of a transaction that has locked the owner. */
export class EntryChanges {
  readonly #add
  readonly #count
  readonly #countNone

  constructor({ statement }: ContentDatabase) {
    this.#add = statement(
      'add_entry',
      `INSERT INTO ~entries (owner, key, cid, number, byte_count, json_byte_count) VALUES ($1, $2, $3, $4, $5, $6)`
    )
    const counted = `WITH gone AS (DELETE FROM ~entries WHERE owner = $1 AND key = $2 AND cid = ANY($5)),
      counted AS (UPDATE ~owners SET byte_count = byte_count + $3, entry_count = entry_count + $4 WHERE id = $1)`
    this.#count = statement(
      'count_entries',
      `${counted} INSERT INTO ~lists (owner, key, entry_count, hash) VALUES ($1, $2, $6, $7)
       ON CONFLICT (owner, key) DO UPDATE SET entry_count = excluded.entry_count, hash = excluded.hash`
    )
    this.#countNone = statement('count_none', `${counted} DELETE FROM ~lists WHERE owner = $1 AND key = $2`)
  }

  /** Removes and adds entries, and counts. @returns the list as it is then */
  async change(
    query: Query,
    { owner, key, list }: ListPlace,
    removed: readonly Entry[],
    added: readonly Entry[]
  ): Promise<ListState> {
    const hash = Buffer.from(list.hash)
    for (const entry of [...removed, ...added]) addToHash(hash, entry)
    const byteCount = sum(added) - sum(removed)
    const more = added.length - removed.length
    const after = { entryCount: list.entryCount + more, hash }
    const counts = [owner, key, byteCount, more, removed.map(({ cid }) => cid)]
    await Promise.all([
      after.entryCount === 0 ? query(this.#countNone, counts) : query(this.#count, [...counts, after.entryCount, hash]),
      ...added.map(({ cid, number, ...sizes }) =>
        query(this.#add, [owner, key, cid, number, sizes.byteCount, sizes.jsonByteCount])
      )
    ])
    return after
  }
}

function sum(entries: readonly Entry[]): number {
  return entries.reduce((bytes, { byteCount }) => bytes + byteCount, 0)
}
