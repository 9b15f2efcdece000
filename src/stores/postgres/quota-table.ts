import type { QuotaCharge, QuotaState } from '../../ports.js'
import type { PostgresDatabase } from './postgres-database.js'
import type { PostgresStatement } from './postgres-pool.js'
import type { ServiceIds } from './row-keys.js'

/** The tables of quotas, one for each kind, so that quotas of strangers displace none of users. */
export const QUOTA_TABLES: Readonly<
  Record<QuotaCharge['kind'], 'did_auth_request_quotas' | 'did_auth_anonymous_quotas'>
> = { request: 'did_auth_request_quotas', anonymous: 'did_auth_anonymous_quotas' }

// A slot that ends later than two slots from now was begun by a clock that ran far ahead, and must refuse no user.
const isRunning = (now: string, slot: string): string =>
  `known.resets_at > ${now}::bigint AND known.resets_at <= ${now} + 2 * ${slot}::bigint`

/** Adds the cost to the count of the running slot, or begins one, and does neither beyond the limit. */
function charge(kind: QuotaCharge['kind']): PostgresStatement {
  const running = isRunning('$5', '$6')
  const text = `INSERT INTO ${QUOTA_TABLES[kind]} AS known (quota_key, service, count, resets_at)
    VALUES ($1, $2, $3::bigint, $5::bigint + $6::bigint)
    ON CONFLICT (quota_key, service) DO UPDATE SET
      count = CASE WHEN ${running} THEN known.count + excluded.count ELSE excluded.count END,
      resets_at = CASE WHEN ${running} THEN known.resets_at ELSE excluded.resets_at END
    WHERE NOT (${running}) OR known.count + excluded.count <= $4::bigint
    RETURNING count, resets_at`
  return { name: `did_auth_charge_${kind}`, text }
}

/** The running slot. */
function find(kind: QuotaCharge['kind']): PostgresStatement {
  const text = `SELECT count, resets_at FROM ${QUOTA_TABLES[kind]} AS known
    WHERE quota_key = $1 AND service = $2 AND ${isRunning('$3', '$4')}`
  return { name: `did_auth_find_quota_${kind}`, text }
}

const CHARGE = { request: charge('request'), anonymous: charge('anonymous') }
const FIND = { request: find('request'), anonymous: find('anonymous') }

/** A charge whose answer was lost is made again: at worst it counts twice. */
const REPEATABLE = { isRepeatable: true }

/** The verb of quotas. */
export class QuotaTable {
  readonly #database: PostgresDatabase
  readonly #services: ServiceIds

  constructor(database: PostgresDatabase, services: ServiceIds) {
    this.#database = database
    this.#services = services
  }

  async charge(charge: QuotaCharge): Promise<QuotaState> {
    const { kind, key, cost, limit = Infinity, nowSeconds, timeSlotSeconds } = charge
    const owner = [key, await this.#services.of(charge.service)]
    const slot = [nowSeconds, timeSlotSeconds]
    // A cost above the limit begins no slot.
    if (cost <= limit) {
      const values = [...owner, cost, Math.min(limit, Number.MAX_SAFE_INTEGER), ...slot]
      const { rows } = await this.#database.query(CHARGE[kind], values, REPEATABLE)
      if (rows[0] !== undefined) return { isCharged: true, ...parseState(rows[0]) }
    }
    const { rows } = await this.#database.query(FIND[kind], [...owner, ...slot], REPEATABLE)
    const state = rows[0] && parseState(rows[0])
    return { isCharged: false, ...(state ?? { count: 0, resetsAtSeconds: nowSeconds + timeSlotSeconds }) }
  }
}

function parseState(row: Readonly<Record<string, unknown>>): { count: number; resetsAtSeconds: number } {
  return { count: Number(row.count), resetsAtSeconds: Number(row.resets_at) }
}
