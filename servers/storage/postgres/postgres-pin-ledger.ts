import {
  comparePins,
  DOUBT_SECONDS,
  type ClaimRequest,
  type PinLedger,
  type PinTask,
  type TrackedPin
} from '../pin-ledger.js'
import type { CheckMode } from '../content-inspection.js'
import type { ContentDatabase, Row } from './content-database.js'
import { numberOf } from './entry-rows.js'

const PAGE = 1_000

const REPEATABLE = { isRepeatable: true }

/** The ledger of pins: each verb is a statement that takes its rows, or leaves those aside that another one has. */
export class PostgresPinLedger implements PinLedger {
  protected readonly database: ContentDatabase
  readonly #claimDue
  readonly #claimNamed
  readonly #finishPin
  readonly #finishUnpin
  readonly #finishLater
  readonly #postpone
  readonly #release
  readonly #isOpen
  readonly #countOpen
  readonly #retryNow
  readonly #list
  readonly #pinAgain

  constructor(database: ContentDatabase) {
    this.database = database
    const { statement } = database
    // A lease that ended is a claimant that has ended half way, or is so late that another one has to be made.
    const claim = (
      condition: string
    ): string => `WITH due AS (SELECT cid, retry_at, revision, claimed_until > 0 AS is_late,
        CASE WHEN claimed_until > 0 THEN pg_catalog.nextval('~revisions') ELSE revision END AS claimed FROM ~pins
        WHERE state <> 'pinned' AND retry_at <= $1 AND claimed_until <= $1 ${condition}
        ORDER BY retry_at, revision LIMIT $2 FOR UPDATE SKIP LOCKED),
      taken AS (UPDATE ~pins p SET revision = due.claimed, claimed_revision = due.claimed, claimed_until = $3,
        is_in_doubt = p.is_in_doubt OR due.is_late, retry_at = CASE WHEN due.is_late THEN 0 ELSE p.retry_at END
        FROM due WHERE p.cid = due.cid
        RETURNING p.cid, p.state, p.revision, p.attempts, p.is_in_doubt, due.retry_at AS was_due, due.revision AS was)
      SELECT * FROM taken ORDER BY was_due, was`
    this.#claimDue = statement('claim_pins', claim(''))
    this.#claimNamed = statement('claim_named_pins', claim('AND cid = ANY($4)'))
    const [given, ofTask] = ['claimed_revision = 0, claimed_until = 0', 'WHERE cid = $1 AND revision = $2']
    this.#finishPin = statement(
      'finish_pin',
      `UPDATE ~pins SET state = 'pinned', attempts = 0, retry_at = 0, ${given} ${ofTask} AND state = 'pin'`
    )
    this.#finishUnpin = statement('finish_unpin', `DELETE FROM ~pins ${ofTask} AND state = 'unpin'`)
    this.#finishLater = statement(
      'finish_later',
      `UPDATE ~pins SET is_in_doubt = false, attempts = 0, retry_at = $3, ${given} ${ofTask} AND state <> 'pinned'`
    )
    this.#postpone = statement(
      'postpone_pin',
      `UPDATE ~pins SET attempts = attempts + 1, retry_at = $3, ${given} ${ofTask} AND state <> 'pinned'`
    )
    this.#release = statement(
      'release_pin',
      `UPDATE ~pins SET is_in_doubt = is_in_doubt OR $3, ${given} WHERE cid = $1 AND claimed_revision = $2`
    )
    this.#isOpen = statement('open_pins', `SELECT 1 FROM ~pins WHERE cid = ANY($1) AND state <> 'pinned' LIMIT 1`)
    this.#countOpen = statement(
      'count_open_pins',
      `SELECT pg_catalog.count(*) AS number FROM ~pins WHERE state <> 'pinned'`
    )
    // What waits because it is in doubt has not failed since.
    this.#retryNow = statement(
      'retry_pins',
      `UPDATE ~pins SET retry_at = $1 WHERE cid = ANY(ARRAY(SELECT cid FROM ~pins
         WHERE state <> 'pinned' AND retry_at > $1 AND attempts > 0 FOR UPDATE SKIP LOCKED))`
    )
    this.#list = statement(
      'list_pins',
      `SELECT cid, state = 'pinned' AS is_pinned FROM ~pins WHERE cid > $1 ORDER BY cid LIMIT ${PAGE}`
    )
    this.#pinAgain = statement(
      'pin_again',
      `UPDATE ~pins SET state = 'pin', revision = pg_catalog.nextval('~revisions') WHERE cid = ANY(ARRAY(SELECT cid FROM ~pins
         WHERE cid = ANY($1) AND state = 'pinned' FOR UPDATE SKIP LOCKED))`
    )
  }

  async claim({ cids, limit, nowSeconds, leaseSeconds }: ClaimRequest): Promise<readonly PinTask[]> {
    const values = [nowSeconds, limit, nowSeconds + leaseSeconds]
    const { rows } =
      cids === undefined
        ? await this.database.query(this.#claimDue, values)
        : await this.database.query(this.#claimNamed, [...values, cids])
    return rows.map(taskOf)
  }

  async finish({ cid, desired, revision, isInDoubt }: PinTask, nowSeconds: number): Promise<boolean> {
    const finish = desired === 'pinned' ? this.#finishPin : this.#finishUnpin
    const { rowCount } = isInDoubt
      ? await this.database.query(this.#finishLater, [cid, revision, nowSeconds + DOUBT_SECONDS])
      : await this.database.query(finish, [cid, revision])
    if (rowCount === 1) return true
    await this.database.query(this.#release, [cid, revision, false], REPEATABLE)
    return false
  }

  async postpone({ cid, revision }: PinTask, retryAtSeconds: number, wasCalled = true): Promise<boolean> {
    const { rowCount } = await this.database.query(this.#postpone, [cid, revision, retryAtSeconds])
    if (rowCount === 1) return true
    // The call failed, and the node may carry it out after the next one.
    await this.database.query(this.#release, [cid, revision, wasCalled], REPEATABLE)
    return false
  }

  async areSettled(cids: readonly string[]): Promise<boolean> {
    return (await this.database.query(this.#isOpen, [cids], REPEATABLE)).rows.length === 0
  }

  async countOpen(): Promise<number> {
    return numberOf((await this.database.query(this.#countOpen, [], REPEATABLE)).rows[0]?.number)
  }

  async retryNow(nowSeconds: number): Promise<void> {
    await this.database.query(this.#retryNow, [nowSeconds], REPEATABLE)
  }

  async comparePins(
    listOnNode: () => Promise<ReadonlySet<string>>,
    mode: CheckMode = { isDryRun: false }
  ): Promise<{ missing: number; others: number }> {
    const list = async (afterCid: string): Promise<TrackedPin[]> => {
      const { rows } = await this.database.query(this.#list, [afterCid], REPEATABLE)
      return rows.map(({ cid, is_pinned }) => ({ cid: String(cid), isPinned: is_pinned === true }))
    }
    const pinAgain = async (cids: readonly string[]): Promise<number> =>
      (await this.database.query(this.#pinAgain, [cids], REPEATABLE)).rowCount
    return comparePins({ list, pinAgain }, listOnNode, mode)
  }
}

function taskOf({ cid, state, revision, attempts, is_in_doubt }: Row): PinTask {
  return {
    cid: String(cid),
    desired: state === 'pin' ? 'pinned' : 'unpinned',
    revision: numberOf(revision),
    attempts: numberOf(attempts),
    isInDoubt: is_in_doubt === true
  }
}
