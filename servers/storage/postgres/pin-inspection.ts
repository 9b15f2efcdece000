import type { CheckMode } from '../content-inspection.js'
import type { ContentDatabase } from './content-database.js'
import { CONTENT_NAME } from './content-placing.js'
import { UNUSED } from './loose-contents.js'
import { UNWANT } from './pin-changes.js'
import type { Statement } from './statements.js'

/** Rows that one statement looks at. */
const BATCH = 1_000

const REPEATABLE = { isRepeatable: true }

/** Makes the desired state of pins follow from what is stored. No set of all pins is in memory. */
export class PinInspection {
  readonly #database: ContentDatabase
  readonly #contents
  readonly #pins
  readonly #want
  readonly #lock
  readonly #unwant

  constructor(database: ContentDatabase) {
    this.#database = database
    const { statement } = database
    this.#contents = statement(
      'pins_of_contents',
      `SELECT cid, NOT EXISTS (SELECT 1 FROM ~pins p WHERE p.cid = c.cid AND state <> 'unpin')
         AND NOT (${UNUSED})
         AS is_wrong FROM ~contents c WHERE cid > $1 ORDER BY cid LIMIT ${BATCH}`
    )
    this.#pins = statement(
      'contents_of_pins',
      `SELECT cid, state <> 'unpin' AND NOT EXISTS (SELECT 1 FROM ~contents c WHERE c.cid = p.cid) AS is_wrong
       FROM ~pins p WHERE cid > $1 ORDER BY cid LIMIT ${BATCH}`
    )
    this.#want = statement(
      'want_pins',
      `INSERT INTO ~pins AS p (cid, state)
       SELECT cid, 'pin' FROM (SELECT cid FROM ~contents WHERE cid = ANY($1) ORDER BY cid FOR KEY SHARE) c
       ON CONFLICT (cid) DO UPDATE SET state = 'pin', revision = pg_catalog.nextval('~revisions'), attempts = 0, retry_at = 0,
         is_in_doubt = p.is_in_doubt OR p.attempts > 0 WHERE p.state = 'unpin'`
    )
    this.#lock = statement('lock_unpinned', `SELECT pg_catalog.pg_advisory_xact_lock(${CONTENT_NAME})`)
    this.#unwant = statement(
      'unwant_pin',
      `UPDATE ~pins p ${UNWANT} WHERE p.cid = $1 AND p.state <> 'unpin'
         AND NOT EXISTS (SELECT 1 FROM ~contents c WHERE c.cid = $1)`
    )
  }

  async track({ isDryRun }: CheckMode): Promise<{ toPin: number; toUnpin: number }> {
    let [toPin, toUnpin] = [0, 0]
    for await (const cids of this.#wrong(this.#contents)) {
      toPin += cids.length
      if (!isDryRun && cids.length > 0) await this.#database.query(this.#want, [cids], REPEATABLE)
    }
    for await (const cids of this.#wrong(this.#pins)) {
      toUnpin += cids.length
      if (!isDryRun) for (const cid of cids) await this.#setUnwanted(cid)
    }
    return { toPin, toUnpin }
  }

  /** Writers of the content wait, so that none makes its pin wanted while it is looked for. */
  async #setUnwanted(cid: string): Promise<void> {
    await this.#database.transaction(async (query) => {
      await Promise.all([query(this.#lock, [cid]), query(this.#unwant, [cid])])
    }, REPEATABLE)
  }

  async *#wrong(statement: Statement): AsyncGenerator<string[], void, undefined> {
    for (let after = ''; ;) {
      const { rows } = await this.#database.query(statement, [after], REPEATABLE)
      if (rows.length === 0) return
      yield rows.filter(({ is_wrong }) => is_wrong === true).map(({ cid }) => String(cid))
      after = String(rows.at(-1)?.cid)
    }
  }
}
