import type { ContentDatabase, Query } from './content-database.js'
import { UNWANT } from './pin-changes.js'
import type { Statement } from './statements.js'

const AT_ONCE = 100

/**
 * Content that was let go: a collector deletes what nothing has any more, and makes its pin unwanted. It works on any
 * instance, also on several at once, and leaves aside what another transaction has locked.
 *
 * It looks for entries in a statement that begins after the content is locked: a writer of an entry of that content
 * afterwards waits, and begins once more when the content is gone.
 */
export class LooseContents {
  readonly #database: ContentDatabase
  readonly #find
  readonly #claimOwn
  readonly #claimFree
  readonly #unpinned
  readonly #lock
  readonly #known
  readonly #drop

  constructor(database: ContentDatabase) {
    this.#database = database
    const { statement } = database
    this.#find = statement('find_loose', `SELECT cid FROM ~loose ORDER BY since LIMIT ${AT_ONCE}`)
    const claim = 'SELECT cid FROM ~loose WHERE cid = ANY($1) ORDER BY cid FOR UPDATE'
    this.#claimOwn = statement('claim_own_loose', claim)
    this.#claimFree = statement('claim_loose', `${claim} SKIP LOCKED`)
    this.#unpinned = statement('unpinned', `SELECT cid FROM ~pins WHERE cid = ANY($1) AND state = 'unpin'`)
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
  async collect(cids: readonly string[], nowSeconds: number): Promise<readonly string[]> {
    if (cids.length === 0) return []
    const { settled, unpinned } = await this.#collect(this.#claimOwn, cids, nowSeconds)
    const others = cids.filter((cid) => !settled.includes(cid))
    if (others.length === 0) return unpinned
    // Another collector was faster, or another writer uses it.
    const { rows } = await this.#database.query(this.#unpinned, [others], { isRepeatable: true })
    return [...unpinned, ...rows.map(({ cid }) => String(cid))]
  }

  /** Looks after all that is left of others. */
  async collectAll(nowSeconds: number): Promise<void> {
    for (let isMore = true; isMore;) {
      const { rows } = await this.#database.query(this.#find, [], { isRepeatable: true })
      const cids = rows.map(({ cid }) => String(cid))
      if (cids.length === 0) return
      isMore = (await this.#collect(this.#claimFree, cids, nowSeconds)).settled.length === AT_ONCE
    }
  }

  #collect(claim: Statement, cids: readonly string[], nowSeconds: number): Promise<Collected> {
    const work = async (query: Query): Promise<Collected> => {
      const [claimed, locked, known] = await Promise.all(
        [claim, this.#lock, this.#known].map(async (statement) => {
          const { rows } = await query(statement, [cids])
          return new Set(rows.map(({ cid }) => String(cid)))
        })
      )
      const settled = [...(claimed ?? [])].filter((cid) => locked?.has(cid) === true || known?.has(cid) === false)
      if (settled.length === 0) return { settled, unpinned: [] }
      const { rows } = await query(this.#drop, [settled, nowSeconds])
      return { settled, unpinned: rows.map(({ cid }) => String(cid)) }
    }
    return this.#database.transaction(work, { repeatOn: ['23503'], isRepeatable: true })
  }
}

interface Collected {
  /** What was looked after. */
  readonly settled: readonly string[]
  /** Of these, what is gone and was pinned, or was to be. */
  readonly unpinned: readonly string[]
}
