import { describe, expect, it, jest } from '@jest/globals'
import { memoryStore } from 'express-did-auth'
import { RequestQuota } from '../../../servers/relay/request-quota.js'

const NOW_SECONDS = 1_800_000_000

function quotaOf(maxRequests: number, store = memoryStore()) {
  const chargeQuota = jest.spyOn(store, 'chargeQuota')
  const parts = {
    store,
    serviceUrl: 'https://relay.example',
    secret: 's'.repeat(32),
    maxRequests,
    timeSlotSeconds: 600
  }
  return { quota: new RequestQuota(parts), chargeQuota, store }
}

/** How many of so many requests at once are charged. */
async function charged(quota: RequestQuota, count: number, nowSeconds = NOW_SECONDS): Promise<number> {
  const outcomes = await Promise.allSettled(Array.from({ length: count }, () => quota.charge('key', nowSeconds)))
  return outcomes.filter(({ status }) => status === 'fulfilled').length
}

describe('RequestQuota', () => {
  it.each([1, 49, 100, 1_000])(
    'charges exactly %d requests of a DID in a time slot, also at once',
    async (maxRequests) => {
      const { quota } = quotaOf(maxRequests)
      expect(await charged(quota, maxRequests + 50)).toBe(maxRequests)
      await expect(quota.charge('key', NOW_SECONDS)).rejects.toMatchObject({ code: 'ERR_TOO_MANY_REQUESTS' })
      expect(await charged(quota, 1, NOW_SECONDS + 600)).toBe(1)
    }
  )

  it('asks the store once for 16 requests of 1,000, and for each of 49', async () => {
    const large = quotaOf(1_000)
    for (let count = 0; count < 32; count += 1) await large.quota.charge('key', NOW_SECONDS)
    expect(large.chargeQuota).toHaveBeenCalledTimes(2)
    const small = quotaOf(49)
    for (let count = 0; count < 32; count += 1) await small.quota.charge('key', NOW_SECONDS)
    expect(small.chargeQuota).toHaveBeenCalledTimes(32)
  })

  it('is one for two processes on a store, but for what each has charged ahead', async () => {
    const { quota: one, store } = quotaOf(1_000)
    const { quota: two } = quotaOf(1_000, store)
    await one.charge('key', NOW_SECONDS)
    expect(await charged(two, 1_000)).toBe(984)
    expect(await charged(one, 1_000)).toBe(15)
  })

  it('names no DID to the store', async () => {
    const { quota } = quotaOf(1)
    expect(quota.keyOf('did:ethr:rsk:0x01')).toMatch(/^[\w-]{22}$/)
  })

  it('counts in memory while the disk is full, and is 503 at any other failure', async () => {
    const { quota, chargeQuota } = quotaOf(2)
    chargeQuota.mockRejectedValue(Object.assign(new Error('database or disk is full'), { code: 'SQLITE_FULL' }))
    expect(await charged(quota, 3)).toBe(2)
    chargeQuota.mockRejectedValue(Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR' }))
    await expect(quota.charge('key', NOW_SECONDS)).rejects.toMatchObject({ code: 'ERR_STORE' })
  })
})
