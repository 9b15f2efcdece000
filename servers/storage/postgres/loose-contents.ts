import type { ContentDatabase, Query } from './content-database.js'
import { UNWANT } from './pin-changes.js'

const AT_ONCE = 100

/**
 * Content that was let go: a collector deletes what nothing has any more, and makes its pin unwanted. It works on any
 * instance, also on several at once, and leaves aside what another transaction has locked.
 *
 * It looks for entries in a statement that begins after the content is locked: whoever writes an entry of that content
 * afterwards waits, and begins once more when the content is gone.
 */
export class LooseContents {
  readonly #database: ContentDatabase
  readonly #find
  readonly #claim
  readonly #lock
  readonly #known
  readonly #drop

  constructor(database: ContentDatabase) {
    this.#database = database
    const { statement } = database
    this.#find = statement('find_loose', `SELECT cid FROM ~loose ORDER BY since LIMIT ${AT_ONCE}`)
    this.#claim = statement(
      'claim_loose',
      'SELECT cid FROM ~loose WHERE cid = ANY($1) ORDER BY cid FOR UPDATE SKIP LOCKED'
    )
    this.#lock = statement(
      'lock_loose',
      'SELECT cid FROM ~contents WHERE cid = ANY($1) ORDER BY cid FOR UPDATE SKIP LOCKED'
    )
    this.#known = statement('known_contents', 'SELECT cid FROM ~contents WHERE cid = ANY($1)')
    this.#drop = statement(
      'drop_loose',
      `WITH gone AS (DELETE FROM ~contents c WHERE c.cid = ANY($1)
         AND NOT EXISTS (SELECT 1 FROM ~entries e WHERE e.cid = c.cid)
         AND NOT EXISTS (SELECT 1 FROM ~files f WHERE f.cid = c.cid) RETURNING c.cid, c.object),
       garbage AS (INSERT INTO ~garbage (object, cid, kind, since)
         SELECT object, cid, 'removed', $2 FROM gone WHERE object IS NOT NULL),
       settled AS (DELETE FROM ~loose WHERE cid = ANY($1))
       UPDATE ~pins p ${UNWANT} FROM gone WHERE p.cid = gone.cid AND p.state <> 'unpin' RETURNING p.cid`
    )
  }

  /** Looks after content that its caller has just let go. @returns cids whose pins are to change because of it */
  async collect(cids: readonly string[], nowSeconds: number): Promise<string[]> {
    if (cids.length === 0) return []
    return (await this.#collect(cids, nowSeconds)).unpinned
  }

  /** Looks after all that is left of others. */
  async collectAll(nowSeconds: number): Promise<void> {
    for (;;) {
      const { rows } = await this.#database.query(this.#find, [], { isRepeatable: true })
      const cids = rows.map(({ cid }) => String(cid))
      if (cids.length === 0) return
      const { settled } = await this.#collect(cids, nowSeconds)
      if (settled < AT_ONCE) return
    }
  }

  #collect(cids: readonly string[], nowSeconds: number): Promise<{ settled: number; unpinned: string[] }> {
    const work = async (query: Query): Promise<{ settled: number; unpinned: string[] }> => {
      const [claimed, locked, known] = await Promise.all(
        [this.#claim, this.#lock, this.#known].map(async (statement) => {
          const { rows } = await query(statement, [cids])
          return new Set(rows.map(({ cid }) => String(cid)))
        })
      )
      const settled = [...(claimed ?? [])].filter((cid) => locked?.has(cid) === true || known?.has(cid) === false)
      if (settled.length === 0) return { settled: 0, unpinned: [] }
      const { rows } = await query(this.#drop, [settled, nowSeconds])
      return { settled: settled.length, unpinned: rows.map(({ cid }) => String(cid)) }
    }
    // Between the look and the deletion, nothing of it can change; a pin may be under way.
    return this.#database.transaction(work, { repeatOn: ['23503'], isRepeatable: true })
  }
}
