import type { QuotaCharge } from '../../ports.js'
import { postgresDialect } from '../sql/dialect.js'
import { createStatements, type SqlQuery } from '../sql/query.js'
import { computeRowKey } from '../sql/session-verbs.js'
import type { SqlEngine } from '../sql/sql-store.js'

/** Tables of quotas, one for each kind, so that quotas of strangers cannot displace those of users. */
const TABLE_BY_KIND: Readonly<Record<QuotaCharge['kind'], string>> = {
  request: 'did_auth_request_quotas',
  anonymous: 'did_auth_anonymous_quotas'
}

/** Statements that create the tables. Unlogged tables cost half as much to write, and are empty after a crash. */
export const QUOTA_TABLES: readonly string[] = Object.values(TABLE_BY_KIND).flatMap((name) => [
  `CREATE UNLOGGED TABLE ${name} (
    quota_key bytea PRIMARY KEY,
    count bigint NOT NULL,
    resets_at bigint NOT NULL
  ) WITH (fillfactor = 70)`,
  `CREATE INDEX ${name}_by_end ON ${name} (resets_at)`
])

const STATEMENTS = { request: createQuotaStatements('request'), anonymous: createQuotaStatements('anonymous') }

/** Creates quotas for several instances. If an answer is lost, its statement is repeated; a charge may count twice. */
export function createQuotaTable(query: SqlQuery, maxQuotas: number): SqlEngine['quotas'] {
  return {
    async chargeQuota({ service, kind, key, cost, limit = Infinity, nowSeconds, timeSlotSeconds }) {
      const quotaKey = computeRowKey(service, key)
      // A cost above the limit does not begin a slot.
      if (cost <= limit) {
        const values = [quotaKey, cost, Math.min(limit, Number.MAX_SAFE_INTEGER), nowSeconds, timeSlotSeconds]
        const { rows } = await query(STATEMENTS[kind].charge, values)
        if (rows[0] !== undefined) return { isCharged: true, ...parseState(rows[0]) }
      }
      const { rows } = await query(STATEMENTS[kind].find, [quotaKey, nowSeconds, timeSlotSeconds])
      const state = rows[0] && parseState(rows[0])
      return { isCharged: false, ...(state ?? { count: 0, resetsAtSeconds: nowSeconds + timeSlotSeconds }) }
    },

    async trim(repeat) {
      for (const { surplus, deleteFirst } of Object.values(STATEMENTS)) {
        const { rows } = await query(surplus, [maxQuotas])
        let remaining = Number(rows[0]?.rows)
        await repeat(async (limit) => {
          if (remaining <= 0) return 0
          const { rowCount } = await query(deleteFirst, [Math.min(limit, remaining)])
          remaining -= rowCount
          return rowCount
        })
      }
    },

    async deleteEnded(repeat, endSeconds) {
      for (const { deleteEnded } of Object.values(STATEMENTS)) {
        await repeat(async (limit) => (await query(deleteEnded, [endSeconds, limit])).rowCount)
      }
    }
  }
}

function createQuotaStatements(kind: QuotaCharge['kind']) {
  const { deleteRows, tryLock, rowCount } = postgresDialect
  const table = TABLE_BY_KIND[kind]
  // If a slot ends more than two slots from now, the clock was far ahead when it began. A new slot replaces it.
  const isRunning = (now: string, slot: string): string =>
    `stored.resets_at > ${now}::bigint AND stored.resets_at <= ${now} + 2 * ${slot}::bigint`
  const running = isRunning('$4', '$5')
  return createStatements(`${table}_`, {
    /** Adds the cost to the count of the running slot, or begins a slot. Does nothing beyond the limit. */
    charge: `INSERT INTO ${table} AS stored (quota_key, count, resets_at)
      VALUES ($1, $2::bigint, $4::bigint + $5::bigint)
      ON CONFLICT (quota_key) DO UPDATE SET
        count = CASE WHEN ${running} THEN stored.count + excluded.count ELSE excluded.count END,
        resets_at = CASE WHEN ${running} THEN stored.resets_at ELSE excluded.resets_at END
      WHERE NOT (${running}) OR stored.count + excluded.count <= $3::bigint
      RETURNING count, resets_at`,
    find: `SELECT count, resets_at FROM ${table} AS stored WHERE quota_key = $1 AND ${isRunning('$2', '$3')}`,
    deleteEnded: deleteRows(table, `${tryLock(table)} AND target.resets_at <= $1 ORDER BY target.resets_at LIMIT $2`),
    // Rows are counted if the estimate exceeds the bound, because deletions do not change the estimate at once.
    surplus: `SELECT CASE WHEN ${rowCount(table, '')} > CAST($1 AS bigint)
      THEN (SELECT pg_catalog.count(*) FROM ${table}) - CAST($1 AS bigint) ELSE 0 END AS rows`,
    deleteFirst: deleteRows(table, `${tryLock(table)} ORDER BY target.resets_at LIMIT $1`)
  })
}

function parseState(row: Readonly<Record<string, unknown>>): { count: number; resetsAtSeconds: number } {
  return { count: Number(row.count), resetsAtSeconds: Number(row.resets_at) }
}
