import type { QuotaCharge, QuotaState, QuotaStore } from '../../ports.js'
import { createRedisScript, type RedisConnection } from './redis-connection.js'
import { createQuotaKey } from './redis-keys.js'

/** Milliseconds that Redis stores a quota after its slot, for instances whose clocks are behind. */
const CLOCK_SKEW_MILLISECONDS = 5_000

/** Keys that have the quotas of strangers, and quotas in each: about a million in all, as elsewhere, in 50 MB. */
const BUCKETS = 65_536
const QUOTAS_IN_BUCKET = 16

/**
 * Value: `<count> <end>`, of a key or of a field of a bucket. ARGV: cost, limit or '', now, seconds of a slot,
 * milliseconds to keep it, field or ''. In a full bucket, a new field deletes the one that ends first.
 *
 * Redis's own clock matters only as a duration. Numbers are written by %.0f: Lua writes large ones as 5e+09.
 */
const CHARGE = createRedisScript(`
local cost, now, slot = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4])
local limit = tonumber(ARGV[2]) or math.huge
local key, field = KEYS[1], ARGV[6]
local isField = field ~= ''
local stored = isField and redis.call('HGET', key, field) or not isField and redis.call('GET', key)
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
  if not isField then
    if isNew then redis.call('SET', key, value, 'PX', ARGV[5]) else redis.call('SET', key, value, 'KEEPTTL') end
  else
    if not stored and redis.call('HLEN', key) >= ${String(QUOTAS_IN_BUCKET)} then
      local fields, first, least = redis.call('HGETALL', key), nil, math.huge
      for index = 1, #fields, 2 do
        local last = tonumber(string.match(fields[index + 1], '%d+$'))
        if last < least then first, least = fields[index], last end
      end
      redis.call('HDEL', key, first)
    end
    redis.call('HSET', key, field, value)
    if redis.call('PTTL', key) < tonumber(ARGV[5]) then redis.call('PEXPIRE', key, ARGV[5]) end
  end
end
return { isCharged, string.format('%.0f', count), string.format('%.0f', ends) }
`)

/**
 * A user's quota is a key, which Redis deletes when its slot is over. Those of strangers share a bounded number of
 * keys, so that a client that names many DIDs displaces only strangers.
 */
export function createQuotas(redis: RedisConnection, buckets = BUCKETS): QuotaStore {
  return {
    async chargeQuota(charge: QuotaCharge): Promise<QuotaState> {
      const { cost, limit = '', nowSeconds, timeSlotSeconds } = charge
      const milliseconds = Math.ceil(timeSlotSeconds * 1000) + CLOCK_SKEW_MILLISECONDS
      const [key, field] = createQuotaKey(charge, buckets)
      const answer = await redis.run(CHARGE, key, [cost, limit, nowSeconds, timeSlotSeconds, milliseconds, field])
      const [isCharged, count, resetsAtSeconds] = answer as [number, string, string]
      return { isCharged: isCharged === 1, count: Number(count), resetsAtSeconds: Number(resetsAtSeconds) }
    }
  }
}
