import type { SqlConnection, SqlRow, SqlStatement } from 'express-did-auth/stores/sqlite'
import { DOUBT_SECONDS, type ClaimRequest, type PinTask } from '../pin-ledger.js'

const PAGE = 1_000

/**
 * The desired state of each pin: `pin` and `unpin` are open, `pinned` is done. Each change of it, and each claim after a
 * lease that ended, is a new row with a revision that never comes again, so that who acted on another one notices.
 *
 * A lease outlives a change of the desired state: until the call that it stands for has ended, no other is made.
 */
export class PinTable {
  readonly #find: SqlStatement
  readonly #put: SqlStatement
  readonly #due: SqlStatement
  readonly #claim: SqlStatement
  readonly #finishPin: SqlStatement
  readonly #finishUnpin: SqlStatement
  readonly #finishLater: SqlStatement
  readonly #postpone: SqlStatement
  readonly #release: SqlStatement
  readonly #countOpen: SqlStatement
  readonly #retryNow: SqlStatement
  readonly #pinned: SqlStatement

  constructor(connection: SqlConnection) {
    this.#find = connection.prepare('SELECT * FROM pins WHERE cid = ?')
    this.#put = connection.prepare(`INSERT OR REPLACE INTO pins
      (cid, state, attempts, is_in_doubt, retry_at, claimed_revision, claimed_until) VALUES (?, ?, ?, ?, ?, ?, ?)`)
    this.#due = connection.prepare(`SELECT * FROM pins INDEXED BY pins_open
      WHERE state <> 'pinned' AND retry_at <= ? AND claimed_until <= ? ORDER BY retry_at, revision LIMIT ?`)
    this.#claim = connection.prepare('UPDATE pins SET claimed_revision = revision, claimed_until = ? WHERE cid = ?')
    this.#finishPin = connection.prepare(`UPDATE pins SET state = 'pinned', attempts = 0, retry_at = 0,
      claimed_revision = 0, claimed_until = 0 WHERE revision = ? AND state = 'pin'`)
    this.#finishUnpin = connection.prepare("DELETE FROM pins WHERE revision = ? AND state = 'unpin'")
    this.#finishLater = connection.prepare(`UPDATE pins SET is_in_doubt = 0, attempts = 0, retry_at = ?,
      claimed_revision = 0, claimed_until = 0 WHERE revision = ? AND state <> 'pinned'`)
    this.#postpone = connection.prepare(`UPDATE pins SET attempts = attempts + 1, retry_at = ?,
      claimed_revision = 0, claimed_until = 0 WHERE revision = ? AND state <> 'pinned'`)
    this.#release = connection.prepare(`UPDATE pins SET claimed_revision = 0, claimed_until = 0,
      is_in_doubt = max(is_in_doubt, ?) WHERE cid = ? AND claimed_revision = ?`)
    this.#countOpen = connection.prepare(
      "SELECT count(*) AS number FROM pins INDEXED BY pins_open WHERE state <> 'pinned'"
    )
    // What waits because it is in doubt has not failed since.
    this.#retryNow = connection.prepare(`UPDATE pins SET retry_at = ?
      WHERE state <> 'pinned' AND retry_at > ? AND attempts > 0`)
    this.#pinned = connection.prepare(`SELECT cid, state FROM pins WHERE cid > ? ORDER BY cid LIMIT ${PAGE}`)
  }

  /** Content is in use, so it is to be pinned. @param isNew - whether it is to be tracked where it is not */
  want(cid: string, isNew: boolean): void {
    const row = this.#find.get(cid)
    if (row === undefined ? isNew : row.state === 'unpin') this.#change(cid, row, 'pin')
  }

  /** Nothing uses content any more. What is not tracked stays as it is. */
  unwant(cid: string): void {
    const row = this.#find.get(cid)
    if (row !== undefined && row.state !== 'unpin') this.#change(cid, row, 'unpin')
  }

  /** Those for which something is to be done. */
  open(cids: readonly string[]): string[] {
    return [...new Set(cids)].filter((cid) => isOpen(this.#find.get(cid)))
  }

  claim({ cids, limit, nowSeconds, leaseSeconds }: ClaimRequest): PinTask[] {
    const isFree = (row: SqlRow | undefined): row is SqlRow =>
      row !== undefined && isOpen(row) && Number(row.retry_at) <= nowSeconds && Number(row.claimed_until) <= nowSeconds
    const rows = cids?.map((cid) => this.#find.get(cid)).filter(isFree) ?? this.#due.all(nowSeconds, nowSeconds, limit)
    return rows.slice(0, limit).map((row) => {
      const cid = String(row.cid)
      // Its claimant has ended half way, or is so late that another one has to be made.
      if (Number(row.claimed_until) > 0) this.#put.run(cid, row.state ?? '', Number(row.attempts), 1, 0, 0, 0)
      this.#claim.run(nowSeconds + leaseSeconds, cid)
      return taskOf(this.#find.get(cid) ?? row)
    })
  }

  finish({ cid, desired, revision, isInDoubt }: PinTask, nowSeconds: number): boolean {
    const done = isInDoubt
      ? this.#finishLater.run(nowSeconds + DOUBT_SECONDS, revision)
      : (desired === 'pinned' ? this.#finishPin : this.#finishUnpin).run(revision)
    if (Number(done.changes) === 1) return true
    this.#release.run(0, cid, revision)
    return false
  }

  postpone({ cid, revision }: PinTask, retryAtSeconds: number, wasCalled: boolean): boolean {
    const { changes } = this.#postpone.run(retryAtSeconds, revision)
    if (Number(changes) === 1) return true
    // The call failed, and the node may carry it out after the next one.
    this.#release.run(wasCalled ? 1 : 0, cid, revision)
    return false
  }

  countOpen(): number {
    return Number(this.#countOpen.get()?.number)
  }

  retryNow(nowSeconds: number): void {
    this.#retryNow.run(nowSeconds, nowSeconds)
  }

  /** A page of what is tracked, in the order of cids. */
  listPins(afterCid: string): { cid: string; isPinned: boolean }[] {
    return this.#pinned.all(afterCid).map(({ cid, state }) => ({ cid: String(cid), isPinned: state === 'pinned' }))
  }

  /** The node has lost what it pinned. @returns how many of these are to be pinned again */
  pinAgain(cids: readonly string[]): number {
    const lost = cids.map((cid) => this.#find.get(cid)).filter((row) => row?.state === 'pinned')
    for (const row of lost) this.#change(String(row?.cid), row, 'pin')
    return lost.length
  }

  #change(cid: string, row: SqlRow | undefined, state: 'pin' | 'unpin'): void {
    const mayComeLater = row !== undefined && (row.is_in_doubt === 1 || Number(row.attempts) > 0)
    const [revision, until] = [Number(row?.claimed_revision ?? 0), Number(row?.claimed_until ?? 0)]
    this.#put.run(cid, state, 0, mayComeLater ? 1 : 0, 0, revision, until)
  }
}

function isOpen(row: SqlRow | undefined): boolean {
  return row !== undefined && row.state !== 'pinned'
}

function taskOf(row: SqlRow): PinTask {
  return {
    cid: String(row.cid),
    desired: row.state === 'pin' ? 'pinned' : 'unpinned',
    revision: Number(row.revision),
    attempts: Number(row.attempts),
    isInDoubt: row.is_in_doubt === 1
  }
}
