import { RowCount } from './row-count.js'
import { dayOf } from './schema.js'
import type { SqlConnection, SqlRow, SqlStatement } from './sqlite-engine.js'

/** Rows that one transaction of a sweep deletes, and that one query for expired or little used sessions returns. */
const ROWS_AT_A_TIME = 500

/** On a day with more sessions than this, expired ones are searched at most once in {@link PAUSE_SECONDS}. */
const SMALL_DAY = 1_000
const PAUSE_SECONDS = 60

/** Deletes sessions: expired ones, and others where the store is full. Expects the caller's transaction. */
export class SessionEviction {
  /** How many sessions there are. */
  readonly count: RowCount
  readonly #maxSessions: number
  readonly #deleteSession: SqlStatement
  readonly #endedDays: SqlStatement
  readonly #sizeOfDays: SqlStatement
  readonly #expired: SqlStatement
  readonly #neverRefreshed: SqlStatement
  readonly #refreshed: SqlStatement
  readonly #isUnchanged: SqlStatement
  #expiredSoughtAtSeconds = -Infinity
  /** The sessions that were refreshed longest ago, as far as they were read. */
  #leastRefreshed: SqlRow[] = []

  constructor(connection: SqlConnection, maxSessions: number) {
    const columns = 'id, state, rotated_at, expires_at'
    const table = 'did_auth_sessions'
    this.#maxSessions = maxSessions
    this.count = new RowCount(connection, table)
    this.#deleteSession = connection.prepare(`DELETE FROM ${table} WHERE id = ?`)
    const limit = `LIMIT ${String(ROWS_AT_A_TIME)}`
    this.#endedDays = connection.prepare(`SELECT id FROM ${table} WHERE sweep_day <= ? ORDER BY sweep_day ${limit}`)
    this.#sizeOfDays = connection.prepare(
      `SELECT COUNT(*) AS number FROM (SELECT 1 FROM ${table} WHERE sweep_day <= ? LIMIT ${String(SMALL_DAY + 1)})`
    )
    this.#expired = connection.prepare(`SELECT id FROM ${table} WHERE sweep_day <= ? AND expires_at <= ? ${limit}`)
    this.#neverRefreshed = connection.prepare(
      `SELECT ${columns} FROM ${table} WHERE refreshed_day IS NULL ORDER BY id LIMIT 1`
    )
    this.#refreshed = connection.prepare(`SELECT ${columns} FROM ${table} WHERE refreshed_day IS NOT NULL
      ORDER BY refreshed_day, rotated_at, id ${limit}`)
    this.#isUnchanged = connection.prepare(`SELECT 1 FROM ${table} WHERE id = ? AND rotated_at = ?`)
  }

  /** Frees space for one more session. @returns how many active ones were evicted */
  makeSpace(nowSeconds: number): number {
    if (!this.count.reaches(this.#maxSessions)) return 0
    this.#deleteExpired(nowSeconds)
    let evicted = 0
    while (this.count.reaches(this.#maxSessions)) {
      const victim = this.#neverRefreshed.get() ?? this.#nextLeastRefreshed()
      if (victim === undefined) return evicted
      this.delete(Number(victim.id))
      if (victim.state === 'active' && nowSeconds < Number(victim.expires_at)) evicted += 1
    }
    return evicted
  }

  delete(id: number): void {
    this.count.add(-Number(this.#deleteSession.run(id).changes))
  }

  /** Deletes some of the sessions that expired before today. True when there may be more. */
  sweep(nowSeconds: number): boolean {
    const ended = this.#endedDays.all(dayOf(nowSeconds))
    for (const { id } of ended) this.delete(Number(id))
    return ended.length === ROWS_AT_A_TIME
  }

  /** Drops what is cached of the table. */
  reset(): void {
    this.count.reset()
    this.#expiredSoughtAtSeconds = -Infinity
    this.#leastRefreshed = []
  }

  /** Deletes expired sessions of today as well, which no index finds. */
  #deleteExpired(nowSeconds: number): void {
    const tomorrow = dayOf(nowSeconds) + 1
    const isSmall = Number(this.#sizeOfDays.get(tomorrow)?.number) <= SMALL_DAY
    if (!isSmall && Math.abs(nowSeconds - this.#expiredSoughtAtSeconds) < PAUSE_SECONDS) return
    this.#expiredSoughtAtSeconds = nowSeconds
    for (const { id } of this.#expired.all(tomorrow, nowSeconds)) this.delete(Number(id))
  }

  /** Reads many at once: within a day, finding the first means reading all. */
  #nextLeastRefreshed(): SqlRow | undefined {
    for (;;) {
      if (this.#leastRefreshed.length === 0) this.#leastRefreshed = this.#refreshed.all().reverse()
      const session = this.#leastRefreshed.pop()
      if (session === undefined) return undefined
      const { id = null, rotated_at: rotatedAt = null } = session
      // Skips a session that was refreshed or deleted since it was read.
      if (this.#isUnchanged.get(id, rotatedAt) !== undefined) return session
    }
  }
}
