import { describe, expect, it } from '@jest/globals'
import { createServiceQuotas, type Quota } from '../../src/flows/limits.js'
import type { QuotaCharge } from '../../src/ports.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { refusal } from '../support/fixtures/refusal.js'
import { START_SECONDS } from '../support/fixtures/fixtures.js'

function createQuotas({
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

describe('createServiceQuotas', () => {
  it('allows as many charges as the limit, then returns the time left in the slot', async () => {
    const { charge, clock } = createQuotas()
    await charge(quota)
    await charge(quota)
    await expect(charge(quota)).rejects.toMatchObject(spent)
    clock.seconds += 599
    await expect(charge(quota)).rejects.toMatchObject({ retryAfterSeconds: 1 })
    clock.seconds += 1
    await charge(quota)
  })

  it('passes service, kind, limit and an opaque name to the store', async () => {
    const { charge, charges } = createQuotas()
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

  it('uses another kind for users than for strangers, whose quotas a full store deletes first', async () => {
    const { charge, charges } = createQuotas()
    for (const budget of ['requests', 'reads'] as const) await charge({ ...quota, name: budget, budget })
    expect(charges.map(({ kind }) => kind)).toEqual(['request', 'anonymous'])
  })

  it.each([
    ['another name', {}, { ...quota, name: 'named did:ethr:rsk:0x1 192.0.2.2' }],
    ['another secret', { challengeSecret: 'another secret' }, quota],
    ['another service', { serviceUrl: 'https://other.example' }, quota]
  ])('uses another key for %s', async (_name, options, other) => {
    const [first, second] = [createQuotas(), createQuotas(options)]
    await first.charge(quota)
    await second.charge(other)
    expect(second.charges[0]!.key).not.toBe(first.charges[0]!.key)
  })

  // Cause: a refusal cost the store as much as a success, so that a flood continued after its budget was used up.
  it('does not call the store for an exhausted quota until its slot ends', async () => {
    const { charge, assertLeft, clock, charges } = createQuotas()
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

  it('shares quotas between two instances on one store; each notices exhaustion itself', async () => {
    const store = memoryStore()
    const [first, second] = [createQuotas({ store }), createQuotas({ store })]
    await first.charge(quota)
    await first.charge(quota)
    second.assertLeft(quota)
    await expect(second.charge(quota)).rejects.toMatchObject(spent)
    expect(() => second.assertLeft(quota)).toThrow(refusal('ERR_TOO_MANY_REQUESTS'))
    await expect(second.charge(quota)).rejects.toMatchObject(spent)
    expect(second.charges).toHaveLength(1)
  })

  it('never exhausts a quota without a limit', async () => {
    const { charge, assertLeft } = createQuotas()
    for (let number = 0; number < 100; number += 1) await charge({ ...quota, limit: Infinity })
    assertLeft(quota)
  })
})
