import { createHmac } from 'node:crypto'
import { DidAuthError } from '../errors.js'
import type { Clock, Quota, Quotas, QuotaStore } from '../ports.js'
import { RecentEntries } from './caches.js'

const KEY_CHARACTERS = 22

/** What the quotas of a service work with. */
export interface QuotaParts {
  store: QuotaStore
  clock: Clock
  serviceUrl: string
  secret: string
  timeSlotSeconds: number
}

/**
 * The quotas of one service. A store sees names only as HMACs, so that it holds no client address. A quota that is
 * known to be used up is refused from memory, so that refusals cost the store nothing.
 */
export function serviceQuotas({ store: own, clock, serviceUrl, secret, timeSlotSeconds }: QuotaParts): Quotas {
  const hmacKey = createHmac('sha256', secret).update(`quota-keys\n${serviceUrl}`).digest()
  /** By name: an HMAC for each request would cost more than the rest of the guard. */
  const keys = new RecentEntries<string>()
  /** When the time slot of a used up quota ends, by key. */
  const usedUp = new RecentEntries<number>()

  let clearedAtSeconds = clock.nowSeconds()

  /** Names of strangers stay in memory for at most two time slots. */
  const clearInTime = (nowSeconds: number): void => {
    if (Math.abs(nowSeconds - clearedAtSeconds) < timeSlotSeconds) return
    clearedAtSeconds = nowSeconds
    keys.clear()
    usedUp.clear()
  }

  const keyOf = (name: string): string => {
    const known = keys.get(name)
    if (known !== undefined) return known
    const key = createHmac('sha256', hmacKey).update(name).digest('base64url').slice(0, KEY_CHARACTERS)
    keys.set(name, key)
    return key
  }

  const assertLeft = (quota: UsedQuota, key: string, nowSeconds: number): void => {
    const resetsAtSeconds = usedUp.get(key)
    if (resetsAtSeconds === undefined || nowSeconds >= resetsAtSeconds) return
    throw tooManyRequests(quota, resetsAtSeconds - nowSeconds)
  }

  return {
    async charge(quota, store = own) {
      const { kind, name, limit } = quota
      const nowSeconds = clock.nowSeconds()
      clearInTime(nowSeconds)
      const key = keyOf(name)
      assertLeft(quota, key, nowSeconds)
      const charge = { service: serviceUrl, kind, key, cost: 1, limit, nowSeconds, timeSlotSeconds }
      const { isCharged, count, resetsAtSeconds } = await store.chargeQuota(charge)
      if (!isCharged || count >= limit) usedUp.set(key, resetsAtSeconds)
      if (!isCharged) throw tooManyRequests(quota, resetsAtSeconds - nowSeconds)
    },
    assertLeft(quota) {
      assertLeft(quota, keyOf(quota.name), clock.nowSeconds())
    }
  }
}

type UsedQuota = Pick<Quota, 'budget' | 'limit'>

function tooManyRequests({ budget, limit }: UsedQuota, seconds: number): DidAuthError {
  const reason = { check: 'quota', budget, limit, option: 'maxRequestsPerTimeSlot' }
  return new DidAuthError('ERR_TOO_MANY_REQUESTS', { retryAfterSeconds: Math.max(1, seconds), reason })
}
