import type { ChallengeFlow, ChallengeUse, ChallengeUseKey } from '../../ports.js'
import { USES_OUTLIVE_WINDOW_SECONDS } from '../../protocol/challenge.js'
import type { SweepClock } from '../sweep-clock.js'
import { RowCount } from './row-count.js'
import type { SqlConnection, SqlRow, SqlStatement } from './sqlite-engine.js'

const ROWS_AT_A_TIME = 500

/** The verbs of uses of challenges. Each that writes expects the caller's transaction. */
export class ChallengeUseTable {
  readonly #maxUses: number
  readonly #clock: SweepClock
  readonly #count: RowCount
  readonly #find: SqlStatement
  readonly #insert: SqlStatement
  readonly #update: SqlStatement
  readonly #ended: SqlStatement
  readonly #delete: SqlStatement
  readonly #forgottenUntil: SqlStatement
  readonly #setForgottenUntil: SqlStatement

  constructor(connection: SqlConnection, maxUses: number, clock: SweepClock) {
    const table = 'did_auth_challenge_uses'
    this.#maxUses = maxUses
    this.#clock = clock
    this.#count = new RowCount(connection, table)
    this.#find = connection.prepare(`SELECT id, log_in, sign_up FROM ${table}
      WHERE canonical_did = ? AND challenge_window = ? AND service = ?`)
    this.#insert = connection.prepare(`INSERT INTO ${table}
      (canonical_did, challenge_window, service, log_in, sign_up, expires_at) VALUES (?, ?, ?, ?, ?, ?)`)
    this.#update = connection.prepare(`UPDATE ${table} SET log_in = ?, sign_up = ? WHERE id = ?`)
    this.#ended = connection.prepare(`SELECT id, expires_at FROM ${table} WHERE expires_at <= ?
      ORDER BY expires_at LIMIT ${String(ROWS_AT_A_TIME)}`)
    this.#delete = connection.prepare(`DELETE FROM ${table} WHERE id = ?`)
    this.#forgottenUntil = connection.prepare("SELECT number FROM did_auth_numbers WHERE name = 'usesForgottenUntil'")
    this.#setForgottenUntil = connection.prepare(
      "UPDATE did_auth_numbers SET number = ? WHERE name = 'usesForgottenUntil' AND number < ?"
    )
  }

  countUses(key: ChallengeUseKey): Record<ChallengeFlow, number> {
    return countsOf(this.#find.get(key.did, key.window, key.service))
  }

  consume(use: ChallengeUse): 'consumed' | 'taken' | 'full' {
    const { did, window, service, flow, useCount, consumesBoth, nowSeconds, expiresAtSeconds } = use
    if (nowSeconds >= expiresAtSeconds) return 'taken'
    // Read each time: another process may have deleted uses, and a clock that is set back must not make them good again.
    if (expiresAtSeconds <= Number(this.#forgottenUntil.get()?.number ?? 0)) return 'taken'
    const row = this.#find.get(did, window, service)
    const counts = countsOf(row)
    if (counts[flow] !== useCount) return 'taken'
    const next = useCount + 1
    const other = flow === 'logIn' ? 'signUp' : 'logIn'
    counts[flow] = next
    if (consumesBoth) counts[other] = Math.max(counts[other], next)
    if (row !== undefined) {
      this.#update.run(counts.logIn, counts.signUp, Number(row.id))
      return 'consumed'
    }
    this.#clock.observeWindow(use)
    if (this.#count.reaches(this.#maxUses)) this.sweep(this.#clock.sweepSeconds(nowSeconds))
    if (this.#count.reaches(this.#maxUses)) return 'full'
    this.#insert.run(did, window, service, counts.logIn, counts.signUp, expiresAtSeconds)
    this.#count.add(1)
    return 'consumed'
  }

  /**
   * Deletes some of the uses whose windows ended a minute before `sweepSeconds`, see {@link SweepClock}. True when there may
   * be more.
   */
  sweep(sweepSeconds: number): boolean {
    if (sweepSeconds === -Infinity) return false
    const ended = this.#ended.all(sweepSeconds - USES_OUTLIVE_WINDOW_SECONDS)
    for (const { id } of ended) this.#count.add(-Number(this.#delete.run(Number(id)).changes))
    const newest = ended.at(-1)?.expires_at
    if (newest !== undefined) this.#setForgottenUntil.run(newest, newest)
    return ended.length === ROWS_AT_A_TIME
  }

  /** Forgets what it knew of the table: a transaction was rolled back, or other processes may have written. */
  reset(): void {
    this.#count.reset()
  }
}

function countsOf(row: SqlRow | undefined): Record<ChallengeFlow, number> {
  return { logIn: Number(row?.log_in ?? 0), signUp: Number(row?.sign_up ?? 0) }
}
