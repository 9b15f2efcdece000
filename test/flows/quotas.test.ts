import { describe, expect, it } from '@jest/globals'
import { createServiceQuotas, type Quota } from '../../src/flows/limits.js'
import type { QuotaCharge } from '../../src/ports.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { refusal } from '../support/refusal.js'

const START_SECONDS = 1_800_000_000

function quotasOf({
  store = memoryStore(),
  serviceUrl = 'https://service.example',
  challengeSecret = 'a secret'
} = {}) {
  const charges: QuotaCharge[] = []
  const watched = {
    chargeQuota: (charge: QuotaCharge) => {
      charges.push(charge)
      return store.chargeQuota(charge)
    }
  }
  const clock = { seconds: START_SECONDS, nowSeconds: () => clock.seconds }
  const quotas = createServiceQuotas(clock, { serviceUrl, challengeSecret, timeSlotSeconds: 600 })
  return { charge: (one: Quota) => quotas.charge(watched, one), assertLeft: quotas.assertLeft, clock, charges }
}
const quota: Quota = { budget: 'didRequests', name: 'named did:ethr:rsk:0x1 192.0.2.1', limit: 2 }
const spent = { code: 'ERR_TOO_MANY_REQUESTS', retryAfterSeconds: 600 }

describe('the quotas of a service', () => {
  it('allow as many charges as their limit, then say how long the time slot still is', async () => {
    const { charge, clock } = quotasOf()
    await charge(quota)
    await charge(quota)
    await expect(charge(quota)).rejects.toMatchObject(spent)
    clock.seconds += 599
    await expect(charge(quota)).rejects.toMatchObject({ retryAfterSeconds: 1 })
    clock.seconds += 1
    await charge(quota)
  })

  it('ask the store for the service, the kind, the limit and a name that tells nothing', async () => {
    const { charge, charges } = quotasOf()
    await charge({ ...quota, budget: 'requests' })
    expect(charges).toEqual([
      {
        service: 'https://service.example',
        kind: 'request',
        key: expect.stringMatching(/^[A-Za-z0-9_-]{22}$/),
        cost: 1,
        limit: 2,
        nowSeconds: START_SECONDS,
        timeSlotSeconds: 600
      }
    ])
  })

  it('are of another kind for a user than for strangers, which a full store deletes first', async () => {
    const { charge, charges } = quotasOf()
    for (const budget of ['requests', 'reads'] as const) await charge({ ...quota, name: budget, budget })
    expect(charges.map(({ kind }) => kind)).toEqual(['request', 'anonymous'])
  })

  it.each([
    ['another name', {}, { ...quota, name: 'named did:ethr:rsk:0x1 192.0.2.2' }],
    ['another secret', { challengeSecret: 'another secret' }, quota],
    ['another service', { serviceUrl: 'https://other.example' }, quota]
  ])('have another key for %s', async (_name, options, other) => {
    const [first, second] = [quotasOf(), quotasOf(options)]
    await first.charge(quota)
    await second.charge(other)
    expect(second.charges[0]!.key).not.toBe(first.charges[0]!.key)
  })

  // Cause: refusing cost the store as much as serving, so that a flood went on when its budget was spent.
  it('do not ask the store for one that is known to be used up, until its slot is over', async () => {
    const { charge, assertLeft, clock, charges } = quotasOf()
    await charge(quota)
    assertLeft(quota)
    await charge(quota)
    for (let number = 0; number < 5; number += 1) {
      await expect(charge(quota)).rejects.toMatchObject(spent)
      expect(() => assertLeft(quota)).toThrow(expect.objectContaining(spent))
    }
    expect(charges).toHaveLength(2)
    clock.seconds += 600
    assertLeft(quota)
    await charge(quota)
    expect(charges).toHaveLength(3)
  })

  it('are shared by two instances on one store, and each learns by itself that one is used up', async () => {
    const store = memoryStore()
    const [first, second] = [quotasOf({ store }), quotasOf({ store })]
    await first.charge(quota)
    await first.charge(quota)
    second.assertLeft(quota)
    await expect(second.charge(quota)).rejects.toMatchObject(spent)
    expect(() => second.assertLeft(quota)).toThrow(refusal('ERR_TOO_MANY_REQUESTS'))
    await expect(second.charge(quota)).rejects.toMatchObject(spent)
    expect(second.charges).toHaveLength(1)
  })

  it('are never used up without a limit', async () => {
    const { charge, assertLeft } = quotasOf()
    for (let number = 0; number < 100; number += 1) await charge({ ...quota, limit: Infinity })
    assertLeft(quota)
  })
})
