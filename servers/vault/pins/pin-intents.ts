import type { SqliteFile } from '../../shared/content/database.js'
import type { GroupCommit } from '../../shared/content/group-commit.js'

/** What has to be done on the IPFS node for a cid, or that it is done. */
export type PinState = 'pin' | 'pinned' | 'unpin'

/** A cid that this vault pinned or is to pin. */
export interface PinIntent {
  cid: string
  state: PinState
  /** Grows with each change of mind and never comes again, so that who acted on an old mind notices. */
  revision: number
  /** Failures since the last change of mind. */
  attempts: number
  /** 1: a call of the mind before failed, and the node may carry it out yet. */
  isDoubtful: 0 | 1
  retryAtSeconds: number
}

const FIELDS = 'cid, state, revision, attempts, is_doubtful AS isDoubtful, retry_at_seconds AS retryAtSeconds'

const DOUBT = "max(is_doubtful, attempts > 0, state <> 'pinned' AND revision <= @doubtfulUntil)"

/** After so long a node has carried out what it was asked before, or never will. */
const DOUBT_SECONDS = 60

interface Change {
  cid: string
  doubtfulUntil: number
}

/**
 * What the vault wants pinned, in the transaction that changes its index: so no crash can come between the two. Pins on
 * the node that are not in here are of others, and are never touched.
 */
export class PinIntents {
  readonly #commits: GroupCommit
  #doubtfulUntil = 0
  readonly #want
  readonly #unwant
  readonly #find
  readonly #due
  readonly #lastRevision
  readonly #countOpen
  readonly #finishPin
  readonly #finishUnpin
  readonly #finishLater
  readonly #postpone
  readonly #makeDue
  readonly #unpinAgain
  readonly #pinAgain

  /** @param commits - of this database; shared with who changes the index, so that both ask the disk once */
  constructor(database: SqliteFile, commits: GroupCommit) {
    // An automatic number is never given twice, also not when the row that had it is gone.
    database.exec(`
      CREATE TABLE IF NOT EXISTS vault_pins (
        revision INTEGER PRIMARY KEY AUTOINCREMENT,
        cid TEXT NOT NULL UNIQUE,
        state TEXT NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        is_doubtful INTEGER NOT NULL DEFAULT 0,
        retry_at_seconds INTEGER NOT NULL DEFAULT 0
      );
      CREATE INDEX IF NOT EXISTS vault_pins_open ON vault_pins (retry_at_seconds) WHERE state <> 'pinned'`)
    this.#commits = commits
    this.#want = database.prepare<Change>(
      `INSERT OR REPLACE INTO vault_pins (cid, state, is_doubtful)
       SELECT @cid, 'pin', ifnull((SELECT ${DOUBT} FROM vault_pins WHERE cid = @cid), 0)
       WHERE NOT EXISTS (SELECT 1 FROM vault_pins WHERE cid = @cid AND state <> 'unpin')`
    )
    this.#unwant = database.prepare<Change>(
      `INSERT OR REPLACE INTO vault_pins (cid, state, is_doubtful)
       SELECT cid, 'unpin', ${DOUBT} FROM vault_pins WHERE cid = @cid AND state <> 'unpin'`
    )
    this.#find = database.prepare<[string], PinIntent>(`SELECT ${FIELDS} FROM vault_pins WHERE cid = ?`)
    this.#due = database.prepare<[number, number], { cid: string }>(
      `SELECT cid FROM vault_pins WHERE state <> 'pinned' AND retry_at_seconds <= ?
       ORDER BY retry_at_seconds, revision LIMIT ?`
    )
    this.#lastRevision = database.prepare<[], number | null>('SELECT max(revision) FROM vault_pins').pluck()
    this.#countOpen = database
      // Left to itself, SQLite goes through the whole table in the order of revisions.
      .prepare<[number], number>(
        "SELECT count(*) FROM vault_pins INDEXED BY vault_pins_open WHERE state <> 'pinned' AND revision <= ?"
      )
      .pluck()
    this.#finishPin = database.prepare<[number]>(
      `UPDATE vault_pins SET state = 'pinned', attempts = 0, retry_at_seconds = 0
       WHERE revision = ? AND state = 'pin'`
    )
    this.#finishUnpin = database.prepare<[number]>("DELETE FROM vault_pins WHERE revision = ? AND state = 'unpin'")
    this.#finishLater = database.prepare<[number, number]>(
      `UPDATE vault_pins SET is_doubtful = 0, attempts = 0, retry_at_seconds = ?
       WHERE revision = ? AND is_doubtful = 1 AND state <> 'pinned'`
    )
    // Who failed where another process succeeded does not shorten the minute of doubt.
    this.#postpone = database.prepare<[number, number, 0 | 1]>(
      `UPDATE vault_pins SET attempts = attempts + 1, retry_at_seconds = ?
       WHERE revision = ? AND is_doubtful = ? AND state <> 'pinned'`
    )
    // Who waits for the minute of doubt has not failed since.
    this.#makeDue = database.prepare<{ nowSeconds: number }>(
      `UPDATE vault_pins SET retry_at_seconds = @nowSeconds
       WHERE state <> 'pinned' AND retry_at_seconds > @nowSeconds AND attempts > 0`
    )
    this.#unpinAgain = database.prepare<[string]>("INSERT OR IGNORE INTO vault_pins (cid, state) VALUES (?, 'unpin')")
    this.#pinAgain = database.prepare<[string]>(
      `INSERT OR REPLACE INTO vault_pins (cid, state) SELECT cid, 'pin' FROM vault_pins WHERE cid = ? AND state = 'pinned'`
    )
  }

  /**
   * A process begins. From now on, what is still open of what was wanted so far counts as asked of the node: a process
   * that was killed may have asked, and the node may carry it out yet. What waits after a failure is due.
   */
  async takeOver(nowSeconds: number): Promise<void> {
    this.#doubtfulUntil = this.lastRevision()
    await this.makeDue(nowSeconds)
  }

  /** In the caller's transaction: an entry has this content, so it is to be pinned. */
  want(cid: string): void {
    this.#want.run({ cid, doubtfulUntil: this.#doubtfulUntil })
  }

  /** In the caller's transaction: no entry has this content any more. What this vault never wanted stays as it is. */
  unwant(cid: string): void {
    this.#unwant.run({ cid, doubtfulUntil: this.#doubtfulUntil })
  }

  /** In the caller's transaction: the node has lost what it pinned. */
  pinAgain(cid: string): void {
    this.#pinAgain.run(cid)
  }

  /** In the caller's transaction: the node may have pinned what nobody wants any more. */
  unpinAgain(cid: string): void {
    this.#unpinAgain.run(cid)
  }

  find(cid: string): PinIntent | undefined {
    return this.#find.get(cid)
  }

  /** Whether something has to be done on the node for this cid. */
  isOpen(cid: string): boolean {
    const state = this.find(cid)?.state
    return state !== undefined && state !== 'pinned'
  }

  /** Cids for which something has to be done now, the oldest first. */
  due(nowSeconds: number, limit: number): string[] {
    return this.#due.all(nowSeconds, limit).map(({ cid }) => cid)
  }

  /** The last change of mind so far. */
  lastRevision(): number {
    return this.#lastRevision.get() ?? 0
  }

  /** How many cids wait for something to be done, since changes of mind up to this one. */
  countOpen(untilRevision = this.lastRevision()): number {
    return this.#countOpen.get(untilRevision) ?? 0
  }

  /** Runs changes in a transaction of their own, together with others. */
  commit<T>(change: () => T): Promise<T> {
    return this.#commits.write(change)
  }

  /**
   * Notes that an intent is carried out; a doubtful one is carried out once more, in a minute. False: there was a change
   * of mind meanwhile.
   */
  finish({ state, revision, isDoubtful }: PinIntent, nowSeconds: number): boolean {
    if (isDoubtful === 1) return this.#finishLater.run(nowSeconds + DOUBT_SECONDS, revision).changes === 1
    return (state === 'pin' ? this.#finishPin : this.#finishUnpin).run(revision).changes === 1
  }

  /** Notes that an intent failed, unless there was a change of mind meanwhile. */
  postpone({ revision, isDoubtful }: PinIntent, retryAtSeconds: number): void {
    this.#postpone.run(retryAtSeconds, revision, isDoubtful)
  }

  /**
   * What failed and waits to be tried again is due now: whoever mended the cause does not wait as well. How often it
   * failed is still known, so that it waits as long as before when it fails again.
   */
  async makeDue(nowSeconds: number): Promise<void> {
    await this.commit(() => this.#makeDue.run({ nowSeconds }))
  }
}
