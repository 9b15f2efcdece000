import { addToHash, stateOf } from '../list-state.js'
import type { ContentDatabase, Query } from './content-database.js'
import { CONTENT_NAME } from './content-placing.js'
import { entryOf, numberOf } from './entry-rows.js'
import { UNWANT } from './pin-changes.js'

/** Entries that one transaction removes: it has to end within the time of a verb. */
const ENTRIES_AT_ONCE = 1_000

/**
 * Removes content everywhere, and refuses it from then on. Writers of the same content wait for it, and it for them: none
 * that began before it puts anything back.
 */
export class Takedown {
  readonly #database: ContentDatabase
  readonly #lock
  readonly #deny
  readonly #owners
  readonly #entries
  readonly #removeEntries
  readonly #setLists
  readonly #deleteLoose
  readonly #deleteContent
  readonly #unpin
  readonly #allow
  readonly #isDenied

  constructor(database: ContentDatabase) {
    this.#database = database
    const { statement } = database
    this.#lock = statement('lock_taken_down', `SELECT pg_catalog.pg_advisory_xact_lock(${CONTENT_NAME})`)
    this.#deny = statement(
      'deny',
      `INSERT INTO ~denied (cid, reason, at) VALUES ($1, $2, $3)
       ON CONFLICT (cid) DO UPDATE SET reason = excluded.reason, at = excluded.at`
    )
    this.#owners = statement(
      'lock_owners_of_content',
      `SELECT id FROM ~owners WHERE id IN (SELECT owner FROM ~entries WHERE cid = $1 ORDER BY owner
         LIMIT ${ENTRIES_AT_ONCE}) ORDER BY id FOR NO KEY UPDATE`
    )
    this.#entries = statement(
      'entries_of_content',
      `SELECT e.*, l.entry_count, l.hash FROM ~entries e JOIN ~lists l ON l.owner = e.owner AND l.key = e.key
       WHERE e.cid = $1 AND e.owner = ANY($2) LIMIT ${ENTRIES_AT_ONCE}`
    )
    this.#removeEntries = statement(
      'remove_content',
      `WITH gone AS (DELETE FROM ~entries e USING ROWS FROM (pg_catalog.unnest($2::bigint[]), pg_catalog.unnest($3::text[]))
         AS one (owner, key) WHERE e.cid = $1 AND e.owner = one.owner AND e.key = one.key RETURNING e.owner, e.byte_count),
       sums AS (SELECT owner, pg_catalog.sum(byte_count) AS bytes, pg_catalog.count(*) AS entries FROM gone GROUP BY owner)
       UPDATE ~owners o SET byte_count = byte_count - bytes, entry_count = entry_count - entries
         FROM sums WHERE o.id = sums.owner`
    )
    this.#setLists = statement(
      'set_lists',
      `WITH changed AS (SELECT * FROM ROWS FROM (pg_catalog.unnest($1::bigint[]), pg_catalog.unnest($2::text[]),
         pg_catalog.unnest($3::bytea[])) AS c (owner, key, hash)),
       emptied AS (DELETE FROM ~lists l USING changed c WHERE l.owner = c.owner AND l.key = c.key AND l.entry_count = 1)
       UPDATE ~lists l SET entry_count = l.entry_count - 1, hash = c.hash FROM changed c
         WHERE l.owner = c.owner AND l.key = c.key AND l.entry_count > 1`
    )
    this.#deleteContent = statement(
      'delete_content',
      `WITH file AS (DELETE FROM ~files WHERE cid = $1 RETURNING cid),
       content AS (DELETE FROM ~contents WHERE cid = $1 RETURNING object, byte_count),
       garbage AS (INSERT INTO ~garbage (object, cid, kind, since, byte_count)
         SELECT object, $1, 'takedown', $2, byte_count FROM content WHERE object IS NOT NULL
         ON CONFLICT (object) DO UPDATE SET kind = 'takedown'),
       marked AS (UPDATE ~garbage SET kind = 'takedown'
         WHERE object > $1 || '.' AND object < $1 || '/' AND kind <> 'upload')
       SELECT cid FROM file`
    )
    this.#deleteLoose = statement('delete_loose', 'DELETE FROM ~loose WHERE cid = $1')
    this.#unpin = statement('unpin_taken_down', `UPDATE ~pins p ${UNWANT} WHERE p.cid = $1 AND p.state <> 'unpin'`)
    this.#allow = statement('allow', 'DELETE FROM ~denied WHERE cid = $1')
    this.#isDenied = statement('is_denied', 'SELECT 1 FROM ~denied WHERE cid = $1')
  }

  /** @returns how many entries and files had it */
  async takeDown(cid: string, reason: string, nowSeconds: number): Promise<number> {
    // At once, however much there is to remove: nothing is added from now on.
    await this.#database.transaction((query) =>
      Promise.all([query(this.#lock, [cid]), query(this.#deny, [cid, reason, nowSeconds])])
    )
    let removed = 0
    for (let isDone = false; !isDone;) {
      const step = await this.#database.transaction((query) => this.#step(query, cid, nowSeconds))
      removed += step.removed
      isDone = step.isDone
    }
    return removed
  }

  async allow(cid: string): Promise<boolean> {
    return (await this.#database.query(this.#allow, [cid])).rowCount === 1
  }

  async isTakenDown(cid: string): Promise<boolean> {
    return (await this.#database.query(this.#isDenied, [cid], { isRepeatable: true })).rows.length === 1
  }

  async #step(query: Query, cid: string, nowSeconds: number): Promise<{ removed: number; isDone: boolean }> {
    const locked = await query(this.#owners, [cid])
    const owners = locked.rows.map(({ id }) => numberOf(id))
    const { rows } = await query(this.#entries, [cid, owners])
    const lists = rows.map((row) => {
      const hash = Buffer.from(stateOf(row).hash)
      addToHash(hash, entryOf(row))
      return { owner: numberOf(row.owner), key: String(row.key), hash }
    })
    const places = [lists.map(({ owner }) => owner), lists.map(({ key }) => key)]
    await query(this.#setLists, [...places, lists.map(({ hash }) => hash)])
    await query(this.#removeEntries, [cid, ...places])
    // More entries than one transaction takes are left, and cannot be written any more.
    const isDone = rows.length < ENTRIES_AT_ONCE && owners.length < ENTRIES_AT_ONCE
    if (!isDone) return { removed: rows.length, isDone }
    // In the collector's order, so that neither waits for the other in a circle.
    await query(this.#deleteLoose, [cid])
    const file = await query(this.#deleteContent, [cid, nowSeconds])
    await query(this.#unpin, [cid])
    return { removed: rows.length + file.rows.length, isDone: true }
  }
}
