import type { QuotaCharge, QuotaState, QuotaStore } from '../../ports.js'
import { createRedisScript, type RedisConnection } from './redis-connection.js'
import { createQuotaKey } from './redis-keys.js'

/** Time for which Redis stores a quota after its slot has ended, for instances whose clocks are behind. */
const CLOCK_SKEW_MILLISECONDS = 5_000

/** Number of buckets for quotas of strangers, and quotas per bucket: about a million quotas, which need 50 MB. */
const BUCKETS = 65_536
const QUOTAS_IN_BUCKET = 16

/**
 * Charges a quota. Value of a key, or of a field of a bucket: `<count> <end>`. ARGV: cost, limit or '', now, length of
 * a slot in seconds, lifetime of the key in milliseconds, field or ''. In a full bucket, a new field replaces the one
 * that ends first.
 *
 * The clock of Redis is used only for lifetimes. Numbers are formatted by %.0f, because Lua formats large ones as
 * 5e+09.
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
  local storedCount, storedEnd = string.match(stored, '^(%d+) (%d+)$')
  storedEnd = tonumber(storedEnd)
  -- If a slot ends more than two slots from now, the clock was far ahead when it began. A new slot replaces it.
  if now < storedEnd and storedEnd <= now + 2 * slot then
    count, ends, isNew = tonumber(storedCount), storedEnd, false
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
      local fields, firstField, firstEnd = redis.call('HGETALL', key), nil, math.huge
      for index = 1, #fields, 2 do
        local fieldEnd = tonumber(string.match(fields[index + 1], '%d+$'))
        if fieldEnd < firstEnd then firstField, firstEnd = fields[index], fieldEnd end
      end
      redis.call('HDEL', key, firstField)
    end
    redis.call('HSET', key, field, value)
    if redis.call('PTTL', key) < tonumber(ARGV[5]) then redis.call('PEXPIRE', key, ARGV[5]) end
  end
end
return { isCharged, string.format('%.0f', count), string.format('%.0f', ends) }
`)

/**
 * Creates the store of quotas. A user's quota is a key, which Redis deletes after its slot. Quotas of strangers share a
 * bounded number of keys, so that a client that sends many DIDs displaces only strangers.
 */
export function createRedisQuotas(redis: RedisConnection, buckets = BUCKETS): QuotaStore {
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
