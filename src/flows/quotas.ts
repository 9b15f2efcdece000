import { createHmac } from 'node:crypto'
import { RecentEntries } from '../caches.js'
import type { Settings } from '../config/settings.js'
import { DidAuthError } from '../errors.js'
import type { Clock, QuotaCharge, QuotaStore } from '../ports.js'

const KEY_CHARACTERS = 22

/** One quota: at most `limit` in a time slot. */
export interface Quota {
  /** A user's requests, those that name a DID, refused proofs, logins, nonces, proofs on chains, open reads. */
  budget: 'requests' | 'namings' | 'proofs' | 'logins' | 'nonces' | 'contracts' | 'reads'
  kind: QuotaCharge['kind']
  /** Budget and owner in plain text; a store sees only an HMAC of it. */
  name: string
  limit: number
}

/** The quotas of one service. */
export interface Quotas {
  /** Counts one request in a store. @throws DidAuthError ERR_TOO_MANY_REQUESTS, ERR_STORE */
  charge(store: QuotaStore, quota: Quota): Promise<void>
  /** Asserts that no earlier charge used the quota up, from memory alone. @throws DidAuthError ERR_TOO_MANY_REQUESTS */
  assertLeft(quota: Quota): void
}

/**
 * The quotas of one service. A store sees names only as HMACs, so that it holds no client address. A quota that is
 * known to be used up is refused from memory, so that refusals cost the store nothing.
 */
export function serviceQuotas(
  clock: Clock,
  { serviceUrl, challengeSecret, timeSlotSeconds }: Pick<Settings, 'serviceUrl' | 'challengeSecret' | 'timeSlotSeconds'>
): Quotas {
  const hmacKey = createHmac('sha256', challengeSecret).update(`quota-keys\n${serviceUrl}`).digest()
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

  const assertKeyLeft = (quota: Quota, key: string, nowSeconds: number): void => {
    const resetsAtSeconds = usedUp.get(key)
    if (resetsAtSeconds === undefined || nowSeconds >= resetsAtSeconds) return
    throw tooManyRequests(quota, resetsAtSeconds - nowSeconds)
  }

  return {
    async charge(store, quota) {
      const { kind, name, limit } = quota
      const nowSeconds = clock.nowSeconds()
      clearInTime(nowSeconds)
      const key = keyOf(name)
      assertKeyLeft(quota, key, nowSeconds)
      const charge = { service: serviceUrl, kind, key, cost: 1, limit, nowSeconds, timeSlotSeconds }
      const { isCharged, count, resetsAtSeconds } = await store.chargeQuota(charge)
      if (!isCharged || count >= limit) usedUp.set(key, resetsAtSeconds)
      if (!isCharged) throw tooManyRequests(quota, resetsAtSeconds - nowSeconds)
    },
    assertLeft: (quota) => assertKeyLeft(quota, keyOf(quota.name), clock.nowSeconds())
  }
}

function tooManyRequests({ budget, limit }: Quota, seconds: number): DidAuthError {
  const reason = { check: 'quota', budget, limit, option: 'maxRequestsPerTimeSlot' }
  return new DidAuthError('ERR_TOO_MANY_REQUESTS', { retryAfterSeconds: Math.max(1, seconds), reason })
}
