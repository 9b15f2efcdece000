import type { QuotaCharge } from '../../ports.js'
import { postgresDialect } from '../sql/dialect.js'
import { createStatements, type SqlQuery } from '../sql/query.js'
import { computeRowKey } from '../sql/tables.js'
import type { SqlEngine } from '../sql/sql-store.js'

/** The tables of quotas, one for each kind, so that quotas of strangers displace none of users. */
const TABLES: Readonly<Record<QuotaCharge['kind'], string>> = {
  request: 'did_auth_request_quotas',
  anonymous: 'did_auth_anonymous_quotas'
}

/** Unlogged: written at half the cost, and empty after a crash or a failover, so that quotas begin again. */
export const QUOTA_TABLES: readonly string[] = Object.values(TABLES).flatMap((name) => [
  `CREATE UNLOGGED TABLE ${name} (
    quota_key bytea PRIMARY KEY,
    count bigint NOT NULL,
    resets_at bigint NOT NULL
  ) WITH (fillfactor = 70)`,
  `CREATE INDEX ${name}_by_end ON ${name} (resets_at)`
])

const STATEMENTS = { request: createQuotaStatements('request'), anonymous: createQuotaStatements('anonymous') }

/** Quotas for several instances. A statement whose answer was lost is repeated: at worst a charge counts twice. */
export function createQuotaTable(query: SqlQuery, maxQuotas: number): SqlEngine['quotas'] {
  return {
    async chargeQuota({ service, kind, key, cost, limit = Infinity, nowSeconds, timeSlotSeconds }) {
      const quotaKey = computeRowKey(service, key)
      // A cost above the limit begins no slot.
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
        let left = Number(rows[0]?.rows)
        await repeat(async (limit) => {
          if (left <= 0) return 0
          const { rowCount } = await query(deleteFirst, [Math.min(limit, left)])
          left -= rowCount
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
  const { deleteRows, isAlone, rowCount } = postgresDialect
  const table = TABLES[kind]
  // A slot that ends later than two slots from now was begun by a clock that ran far ahead, and must refuse no user.
  const isRunning = (now: string, slot: string): string =>
    `known.resets_at > ${now}::bigint AND known.resets_at <= ${now} + 2 * ${slot}::bigint`
  const running = isRunning('$4', '$5')
  return createStatements(`${table}_`, {
    /** Adds the cost to the count of the running slot, or begins one, and does neither beyond the limit. */
    charge: `INSERT INTO ${table} AS known (quota_key, count, resets_at)
      VALUES ($1, $2::bigint, $4::bigint + $5::bigint)
      ON CONFLICT (quota_key) DO UPDATE SET
        count = CASE WHEN ${running} THEN known.count + excluded.count ELSE excluded.count END,
        resets_at = CASE WHEN ${running} THEN known.resets_at ELSE excluded.resets_at END
      WHERE NOT (${running}) OR known.count + excluded.count <= $3::bigint
      RETURNING count, resets_at`,
    find: `SELECT count, resets_at FROM ${table} AS known WHERE quota_key = $1 AND ${isRunning('$2', '$3')}`,
    deleteEnded: deleteRows(table, `${isAlone(table)} AND one.resets_at <= $1 ORDER BY one.resets_at LIMIT $2`),
    // Counted where the estimate is over the bound: a deletion does not change the estimate.
    surplus: `SELECT CASE WHEN ${rowCount(table, '')} > CAST($1 AS bigint)
      THEN (SELECT pg_catalog.count(*) FROM ${table}) - CAST($1 AS bigint) ELSE 0 END AS rows`,
    deleteFirst: deleteRows(table, `${isAlone(table)} ORDER BY one.resets_at LIMIT $1`)
  })
}

function parseState(row: Readonly<Record<string, unknown>>): { count: number; resetsAtSeconds: number } {
  return { count: Number(row.count), resetsAtSeconds: Number(row.resets_at) }
}
