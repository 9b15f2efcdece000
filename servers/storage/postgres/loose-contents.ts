import type { ContentDatabase, Query } from './content-database.js'
import { UNWANT } from './pin-changes.js'

const AT_ONCE = 100

/** Nothing has content `c`. */
export const UNUSED = `NOT EXISTS (SELECT 1 FROM ~entries e WHERE e.cid = c.cid)
  AND NOT EXISTS (SELECT 1 FROM ~files f WHERE f.cid = c.cid)`

/**
 * Unreferenced content. The transaction that removes its last entry deletes it, and asks for its pin to be removed. What another
 * transaction has locked, or still uses, it leaves aside, so that it waits for none: a collector looks after that, on any
 * instance, also on several at once.
 *
 * A writer of an entry of that content waits, and begins once more when the content is gone. The foreign keys refuse a deletion
 * that did not see an entry, and then it is looked after once more.
 */
export class LooseContents {
  readonly #database: ContentDatabase
  readonly #claim
  readonly #lock
  readonly #known
  readonly #drop
  readonly #release

  constructor(database: ContentDatabase) {
    this.#database = database
    const { statement } = database
    const drop = (
      cids: string,
      loose: string
    ): string => `WITH gone AS (DELETE FROM ~contents c WHERE c.cid = ANY(${cids})
         AND ${UNUSED} RETURNING c.cid, c.object, c.byte_count),
       garbage AS (INSERT INTO ~garbage (object, cid, kind, since, byte_count)
         SELECT object, cid, 'removed', $2, byte_count FROM gone WHERE object IS NOT NULL),
       loose AS (${loose})
       UPDATE ~pins p ${UNWANT} FROM gone WHERE p.cid = gone.cid AND p.state <> 'unpin' RETURNING p.cid`
    this.#release = statement(
      'release_contents',
      drop(
        `ARRAY(SELECT cid FROM ~contents c WHERE cid = ANY($1) AND ${UNUSED} ORDER BY cid FOR UPDATE SKIP LOCKED)`,
        `INSERT INTO ~loose (cid, since) SELECT one, $2 FROM pg_catalog.unnest($1::text[]) AS one
           WHERE NOT EXISTS (SELECT 1 FROM gone WHERE cid = one) ORDER BY one COLLATE "C"
         ON CONFLICT (cid) DO UPDATE SET since = excluded.since`
      )
    )
    this.#claim = statement(
      'claim_loose',
      `SELECT cid FROM ~loose WHERE cid > $1 ORDER BY cid LIMIT ${AT_ONCE} FOR UPDATE SKIP LOCKED`
    )
    this.#lock = statement(
      'lock_loose',
      'SELECT cid FROM ~contents WHERE cid = ANY($1) ORDER BY cid FOR UPDATE SKIP LOCKED'
    )
    this.#known = statement('known_contents', 'SELECT cid FROM ~contents WHERE cid = ANY($1)')
    this.#drop = statement('drop_loose', drop('$1', 'DELETE FROM ~loose WHERE cid = ANY($1)'))
  }

  /** The last step of a transaction that let content go. @returns cids whose pins are to change because of it */
  async release(query: Query, cids: readonly string[], nowSeconds: number): Promise<readonly string[]> {
    if (cids.length === 0) return []
    return cidsOf(await query(this.#release, [cids, nowSeconds]))
  }

  /** Looks after all that is left. */
  async collect(nowSeconds: number): Promise<void> {
    const work = async (query: Query, after: string): Promise<readonly string[]> => {
      const claimed = cidsOf(await query(this.#claim, [after]))
      if (claimed.length === 0) return []
      const [locked, known] = await Promise.all([query(this.#lock, [claimed]), query(this.#known, [claimed])])
      const [ours, all] = [new Set(cidsOf(locked)), new Set(cidsOf(known))]
      const settled = claimed.filter((cid) => ours.has(cid) || !all.has(cid))
      await query(this.#drop, [settled, nowSeconds])
      return claimed
    }
    for (let after: string | undefined = ''; after !== undefined;) {
      const from: string = after
      const options = { repeatOn: ['23503'], isRepeatable: true }
      const claimed = await this.#database.transaction((query) => work(query, from), options)
      after = claimed.length < AT_ONCE ? undefined : claimed.at(-1)
    }
  }
}

function cidsOf({ rows }: Awaited<ReturnType<Query>>): string[] {
  return rows.map(({ cid }) => String(cid))
}
