import type { EntryPlace } from '../content-store.js'
import { hashOf } from '../list-state.js'
import type { ContentDatabase, Query } from './content-database.js'
import { damagedLists } from './entry-reads.js'
import { entryOf, numberOf } from './entry-rows.js'

/** Owners that one statement looks at: each may have ten thousand entries. */
const OWNERS = 20

const REPEATABLE = { isRepeatable: true }

/** Compares lists and the counters of owners with the entries. */
export class ListInspection {
  readonly #database: ContentDatabase
  readonly #owners
  readonly #rows
  readonly #isWrong
  readonly #lock
  readonly #correct
  readonly #entries
  readonly #setList
  readonly #deleteList

  constructor(database: ContentDatabase) {
    this.#database = database
    const { statement } = database
    this.#owners = statement('next_owners', `SELECT id, did FROM ~owners WHERE id > $1 ORDER BY id LIMIT ${OWNERS}`)
    this.#rows = statement(
      'lists_of_owners',
      `SELECT owner, key, hash, entry_count, 0 AS number, NULL AS cid, 0 AS byte_count, 0 AS json_byte_count
         FROM ~lists WHERE owner = ANY($1)
       UNION ALL SELECT owner, key, NULL, 0, number, cid, byte_count, json_byte_count
         FROM ~entries WHERE owner = ANY($1) ORDER BY number`
    )
    const sums =
      '(SELECT coalesce(pg_catalog.sum(byte_count), 0), pg_catalog.count(*) FROM ~entries e WHERE e.owner = o.id)'
    this.#isWrong = statement(
      'wrong_owners',
      `SELECT id FROM ~owners o WHERE id = ANY($1) AND (byte_count, entry_count) <> ${sums}`
    )
    this.#lock = statement('lock_owner_by_id', 'SELECT id FROM ~owners WHERE id = $1 FOR NO KEY UPDATE')
    this.#correct = statement('correct_owner', `UPDATE ~owners o SET (byte_count, entry_count) = ${sums} WHERE id = $1`)
    this.#entries = statement('entries_of_list', 'SELECT * FROM ~entries WHERE owner = $1 AND key = $2')
    this.#setList = statement(
      'set_list',
      `INSERT INTO ~lists (owner, key, entry_count, hash) VALUES ($1, $2, $3, $4)
       ON CONFLICT (owner, key) DO UPDATE SET entry_count = excluded.entry_count, hash = excluded.hash`
    )
    this.#deleteList = statement('delete_list', 'DELETE FROM ~lists WHERE owner = $1 AND key = $2')
  }

  /** Lists that are not those that were written. What is missing can be derived from nothing. */
  async findDamaged(): Promise<EntryPlace[]> {
    const found: EntryPlace[] = []
    for await (const owners of this.#pages()) {
      const { rows } = await this.#database.query(this.#rows, [[...owners.keys()]], REPEATABLE)
      for (const [id, did] of owners) {
        const own = rows.filter(({ owner }) => numberOf(owner) === id)
        found.push(...damagedLists(own).map((key) => ({ did, key })))
      }
    }
    return found
  }

  /** Makes lists of the entries that are left. */
  async accept(places: readonly EntryPlace[]): Promise<void> {
    const byDid = new Map<string, string[]>()
    for (const { did, key } of places) byDid.set(did, [...(byDid.get(did) ?? []), key])
    for await (const owners of this.#pages()) {
      for (const [id, did] of owners) for (const key of byDid.get(did) ?? []) await this.#rebuild(id, key)
    }
  }

  /** @returns owners who were counted wrong */
  async recount(isDryRun: boolean): Promise<number> {
    let wrong = 0
    for await (const owners of this.#pages()) {
      const { rows } = await this.#database.query(this.#isWrong, [[...owners.keys()]], REPEATABLE)
      wrong += rows.length
      if (isDryRun) continue
      for (const { id } of rows) await this.#locked(numberOf(id), (query) => query(this.#correct, [id]))
    }
    return wrong
  }

  async #rebuild(owner: number, key: string): Promise<void> {
    await this.#locked(owner, async (query) => {
      const entries = (await query(this.#entries, [owner, key])).rows.map(entryOf)
      if (entries.length === 0) await query(this.#deleteList, [owner, key])
      else await query(this.#setList, [owner, key, entries.length, hashOf(entries)])
    })
  }

  /** The owner's entries do not change meanwhile. */
  async #locked(owner: number, work: (query: Query) => Promise<unknown>): Promise<void> {
    await this.#database.transaction(async (query) => {
      await query(this.#lock, [owner])
      await work(query)
    }, REPEATABLE)
  }

  async *#pages(): AsyncGenerator<ReadonlyMap<number, string>, void, undefined> {
    for (let after = 0; ;) {
      const { rows } = await this.#database.query(this.#owners, [after], REPEATABLE)
      if (rows.length === 0) return
      yield new Map(rows.map(({ id, did }) => [numberOf(id), String(did)]))
      after = numberOf(rows.at(-1)?.id)
    }
  }
}
