import type { QuotaCharge, QuotaState, QuotaStore } from '../../ports.js'
import type { RedisConnection } from './redis-connection.js'
import type { RedisKeys } from './redis-keys.js'
import { RedisPart } from './redis-part.js'
import { RedisScript } from './redis-script.js'

/** Milliseconds that Redis keeps a quota after its slot, for instances whose clocks are behind. */
const CLOCK_SKEW_MILLISECONDS = 5_000

/**
 * Value: `<count> <end>`. ARGV: cost, limit or '', now, seconds of a slot, milliseconds to keep it.
 *
 * The times are the caller's: what Redis's own clock says matters only as a duration. Numbers are written by %.0f, because
 * Lua writes large ones as 5e+09.
 */
const CHARGE = new RedisScript(`
local cost, now, slot = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4])
local limit = tonumber(ARGV[2]) or math.huge
local stored = redis.call('GET', KEYS[1])
local count, ends = 0, now + slot
local isNew = true
if stored then
  local known, last = string.match(stored, '^(%d+) (%d+)$')
  last = tonumber(last)
  -- A slot that ends later than two slots from now was begun by a clock that ran far ahead, and must refuse no user.
  if now < last and last <= now + 2 * slot then
    count, ends, isNew = tonumber(known), last, false
  end
end
local isCharged = 0
if count + cost <= limit then
  isCharged, count = 1, count + cost
  local value = string.format('%.0f %.0f', count, ends)
  if isNew then redis.call('SET', KEYS[1], value, 'PX', ARGV[5])
  else redis.call('SET', KEYS[1], value, 'KEEPTTL') end
end
return { isCharged, string.format('%.0f', count), string.format('%.0f', ends) }
`)

/** Quotas in Redis: one script a charge, one key a quota, which Redis deletes when its slot is over. */
export class RedisQuotas extends RedisPart implements QuotaStore {
  readonly #keys: RedisKeys

  constructor(connection: RedisConnection, keys: RedisKeys) {
    super(connection)
    this.#keys = keys
  }

  async chargeQuota(charge: QuotaCharge): Promise<QuotaState> {
    const { service, kind, key, cost, limit = '', nowSeconds, timeSlotSeconds } = charge
    const milliseconds = Math.ceil(timeSlotSeconds * 1000) + CLOCK_SKEW_MILLISECONDS
    const args = [cost, limit, nowSeconds, timeSlotSeconds, milliseconds]
    const answer = await this.connection.verb((send) => CHARGE.run(send, this.#keys.quota(service, kind, key), args))
    const [isCharged, count, resetsAtSeconds] = answer as [number, string, string]
    return { isCharged: isCharged === 1, count: Number(count), resetsAtSeconds: Number(resetsAtSeconds) }
  }
}
