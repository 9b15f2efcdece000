import { USES_OUTLIVE_WINDOW_SECONDS } from '../../protocol/challenge.js'
import type { PostgresDatabase } from './postgres-database.js'
import type { PostgresStatement } from './postgres-pool.js'
import { QUOTA_TABLES } from './quota-table.js'
import { dayOf } from './schema.js'
import type { TableBounds } from './table-sizes.js'

const ROWS_AT_A_TIME = 1_000

/** The time that a sweep of one table may take, so that instances take turns. */
const MILLISECONDS_A_TABLE = 2_000

/**
 * Deletes up to 1,000 rows that are not locked. Of several instances that sweep a table at once, one does: a statement
 * under the lock of another finds nothing.
 */
function deleteSome(
  name: string,
  { table, where, order }: { table: string; where: string; order: string }
): PostgresStatement {
  const isAlone = `(SELECT pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended('${name}', 0)))`
  const text = `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
    SELECT one.ctid FROM ${table} one WHERE ${isAlone} AND ${where}
    ORDER BY one.${order} LIMIT $2 FOR UPDATE OF one SKIP LOCKED))`
  return { name, text }
}

const SESSIONS = deleteSome('did_auth_sweep_sessions', {
  table: 'did_auth_sessions',
  where: 'one.sweep_day <= $1::int',
  order: 'sweep_day'
})

const USES = deleteSome('did_auth_sweep_uses', {
  table: 'did_auth_challenge_uses',
  // A value, and no join: so that the index on the end finds what there is to delete.
  where: `one.expires_at <= (SELECT number FROM did_auth_numbers
    WHERE name = 'usesForgottenUntil' AND changed_at <= pg_catalog.now() - pg_catalog.make_interval(secs => $1))`,
  order: 'expires_at'
})

const FORGET_USES = {
  name: 'did_auth_forget_uses',
  text: `UPDATE did_auth_numbers SET number = ended.newest, changed_at = pg_catalog.now()
    FROM (SELECT pg_catalog.max(expires_at) AS newest FROM did_auth_challenge_uses WHERE expires_at <= $1) ended
    WHERE name = 'usesForgottenUntil' AND number < ended.newest AND changed_at <= pg_catalog.now() - pg_catalog.make_interval(secs => $2)`
}

const quotas = Object.values(QUOTA_TABLES).map((table) => ({
  table,
  ended: deleteSome(`${table}_ended`, { table, where: 'one.resets_at <= $1::bigint', order: 'resets_at' }),
  first: deleteSome(`${table}_first`, { table, where: '$1::int = 0', order: 'resets_at' }),
  count: { name: `${table}_count`, text: `SELECT pg_catalog.count(*) AS rows FROM ${table}` }
}))

/** Deletes what is over, a few rows at a time. Any number of instances may do it at once. */
export class Sweep {
  readonly #database: PostgresDatabase
  readonly #graceSeconds: number
  #isStopped = false

  /**
   * @param graceSeconds - between closing a window for good and deleting its uses: longer than any statement lasts, so that
   *   none that began before adds a use that was deleted meanwhile
   */
  constructor(database: PostgresDatabase, graceSeconds: number) {
    this.#database = database
    this.#graceSeconds = graceSeconds
  }

  stop(): void {
    this.#isStopped = true
  }

  /** @param sweepSeconds - the time by which it deletes, as of `SweepClock`; asked before each statement */
  async deleteEnded(sweepSeconds: () => number): Promise<void> {
    await this.#repeat(SESSIONS, () => dayOf(sweepSeconds()))
    for (const { ended } of quotas) await this.#repeat(ended, sweepSeconds)
    await this.#repeat(USES, () => this.#graceSeconds)
    // Not while the uses of the windows that were closed before still wait: with short windows they would wait for ever.
    const values = [sweepSeconds() - USES_OUTLIVE_WINDOW_SECONDS, this.#graceSeconds]
    await this.#database.query(FORGET_USES, values, { isRepeatable: true })
  }

  /** Deletes the quotas that end first, where there are more of a kind than its bound. */
  async trimQuotas(isFull: (table: keyof TableBounds) => boolean, bounds: TableBounds): Promise<void> {
    for (const { table, first, count } of quotas.filter(({ table: name }) => isFull(name))) {
      const { rows } = await this.#database.query(count, [], { isRepeatable: true })
      await this.#repeat(first, () => 0, Number(rows[0]?.rows) - bounds[table])
    }
  }

  async #repeat(statement: PostgresStatement, value: () => number, most = Infinity): Promise<void> {
    const end = performance.now() + MILLISECONDS_A_TABLE
    let left = most
    while (left > 0 && !this.#isStopped && performance.now() < end) {
      const limit = Math.min(left, ROWS_AT_A_TIME)
      const { rowCount } = await this.#database.query(statement, [value(), limit], { isRepeatable: true })
      left = rowCount < limit ? 0 : left - rowCount
    }
  }
}
