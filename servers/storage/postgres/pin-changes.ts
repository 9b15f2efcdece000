import type { ContentDatabase, Query } from './content-database.js'

/** What sets the state of a pin to `unpin`; the alias of the table is `p`. A lease outlives it. */
export const UNWANT = `SET state = 'unpin', revision = pg_catalog.nextval('~revisions'), attempts = 0, retry_at = 0,
  is_in_doubt = p.is_in_doubt OR p.attempts > 0`

/** Makes pins wanted in the transactions that write content. A row that has to change nothing is not locked. */
export class PinChanges {
  readonly #want

  /** @param tracksPins - whether new content is to be pinned on a node */
  constructor({ statement }: ContentDatabase, tracksPins: boolean) {
    this.#want = statement(
      tracksPins ? 'want_pin' : 'want_pin_again',
      `WITH changed AS (UPDATE ~pins p SET state = 'pin', revision = pg_catalog.nextval('~revisions'), attempts = 0, retry_at = 0,
         is_in_doubt = p.is_in_doubt OR p.attempts > 0 WHERE p.cid = $1 AND p.state = 'unpin' RETURNING 1),
       added AS (INSERT INTO ~pins (cid, state) SELECT $1, 'pin'
         WHERE ${String(tracksPins)} AND NOT EXISTS (SELECT 1 FROM ~pins WHERE cid = $1)
         ON CONFLICT DO NOTHING RETURNING 1)
       SELECT EXISTS (SELECT 1 FROM changed) OR EXISTS (SELECT 1 FROM added)
         OR EXISTS (SELECT 1 FROM ~pins WHERE cid = $1 AND state <> 'pinned') AS is_open`
    )
  }

  /** Content is in use, so it is to be pinned. @returns whether something is to be done for it */
  async want(query: Query, cid: string): Promise<boolean> {
    return (await query(this.#want, [cid])).rows[0]?.is_open === true
  }
}
