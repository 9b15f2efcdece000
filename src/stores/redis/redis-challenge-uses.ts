import type { ChallengeFlow, ChallengeUse, ChallengeUseKey, ChallengeUseStore } from '../../ports.js'
import { USES_OUTLIVE_WINDOW_SECONDS } from '../../protocol/challenge.js'
import { createRedisScript, type RedisConnection } from './redis-connection.js'
import { toUserId, createUsesKey } from './redis-keys.js'

/**
 * Time for which a user's closed windows are remembered after a login, in case the clock is set back. Less than a
 * session.
 */
const CLOSED_MILLISECONDS = 86_400_000

/**
 * Consumes a challenge. Value: `<closed until> <window>:<logIn>:<signUp>:<end> …`. ARGV: window, flow (1 or 2), use
 * count, 1 to consume both flows, now, end of the window, lifetime of the key in milliseconds.
 *
 * A use is deleted a minute after its window has ended, by the caller's clock. This closes all windows of the user up
 * to that one, so that used challenges never become valid again if the clock is set back.
 */
const CONSUME = createRedisScript(`
local now, expires = tonumber(ARGV[5]), tonumber(ARGV[6])
local stored = redis.call('GET', KEYS[1]) or '0'
local closed = tonumber(string.match(stored, '^%d+'))
if now >= expires or expires <= closed then return 0 end
local counts, open = { 0, 0 }, {}
for window, logIn, signUp, ends in string.gmatch(stored, ' (%-?%d+):(%d+):(%d+):(%d+)') do
  if window == ARGV[1] then counts = { tonumber(logIn), tonumber(signUp) }
  elseif tonumber(ends) + ${String(USES_OUTLIVE_WINDOW_SECONDS)} <= now then closed = math.max(closed, tonumber(ends))
  else open[#open + 1] = table.concat({ window, logIn, signUp, ends }, ':') end
end
local flow, count = tonumber(ARGV[2]), tonumber(ARGV[3])
if counts[flow] ~= count then return 0 end
counts[flow] = count + 1
if ARGV[4] == '1' then counts[3 - flow] = math.max(counts[3 - flow], count + 1) end
open[#open + 1] = string.format('%s:%.0f:%.0f:%s', ARGV[1], counts[1], counts[2], ARGV[6])
redis.call('SET', KEYS[1], string.format('%.0f ', closed) .. table.concat(open, ' '), 'PX', ARGV[7])
return 1
`)

/** Creates the store of challenge uses, with one script per use and one key per user. */
export function createRedisChallengeUses(redis: RedisConnection): ChallengeUseStore {
  return {
    async countChallengeUses({ service, did, window }: ChallengeUseKey): Promise<Record<ChallengeFlow, number>> {
      const stored = await redis.send('GET', createUsesKey(service, toUserId(did)))
      const uses = typeof stored === 'string' ? stored.split(' ').slice(1) : []
      const [, logIn, signUp] =
        uses.map((use) => use.split(':')).find(([useWindow]) => useWindow === String(window)) ?? []
      return { logIn: Number(logIn ?? 0), signUp: Number(signUp ?? 0) }
    },

    async consumeChallenge(use: ChallengeUse): Promise<'consumed' | 'taken'> {
      const { service, did, window, flow, useCount, consumesBoth, nowSeconds, expiresAtSeconds } = use
      const secondsLeft = Math.ceil(expiresAtSeconds - nowSeconds) + USES_OUTLIVE_WINDOW_SECONDS
      const milliseconds = Math.max(secondsLeft * 1000, CLOSED_MILLISECONDS)
      const useArgs = [window, flow === 'logIn' ? 1 : 2, useCount, consumesBoth ? 1 : 0]
      const args = [...useArgs, nowSeconds, expiresAtSeconds, milliseconds]
      const isConsumed = await redis.write(CONSUME, createUsesKey(service, toUserId(did)), args)
      return isConsumed === 1 ? 'consumed' : 'taken'
    }
  }
}
