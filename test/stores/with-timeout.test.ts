import { describe, expect, it } from '@jest/globals'
import { memoryStore } from '../../src/stores/memory/index.js'
import { asClient, followClients, withinRequest } from '../../src/stores/request-client.js'
import { withTimeout } from '../../src/stores/with-timeout.js'
import type { Deadline } from '../../src/ports.js'

/** A deadline that is over when the work does not answer at once. */
const expiring: Deadline = {
  within: async (seconds, work, expired) => {
    const silence = new Promise<never>((_resolve, reject) => {
      setImmediate(() => {
        reject(expired())
      })
    })
    expect(seconds).toBe(5)
    return Promise.race([(async () => work())(), silence])
  }
}

describe('withTimeout', () => {
  it('passes arguments and results through', async () => {
    const store = withTimeout(memoryStore(), expiring)
    const key = { service: 'https://a.example', did: 'did:a:b', window: 1 }
    const use = { ...key, flow: 'logIn', useCount: 0, consumesBoth: false, nowSeconds: 1, expiresAtSeconds: 2 } as const
    expect(await store.consumeChallenge(use)).toBe('consumed')
    expect(await store.countChallengeUses(key)).toEqual({ logIn: 1, signUp: 0 })
  })

  it.each([
    ['throws', () => { throw new Error('broken') }], // prettier-ignore
    ['rejects', () => Promise.reject(new Error('broken'))]
  ])('makes ERR_STORE of a store that %s, with the cause for the log and 5 s to wait', async (_how, fail) => {
    const broken = memoryStore()
    broken.chargeQuota = fail
    const charge = withTimeout(broken, expiring).chargeQuota({
      service: 'https://a.example',
      kind: 'request',
      key: 'did:a:b',
      cost: 1,
      nowSeconds: 1,
      timeSlotSeconds: 1
    })
    await expect(charge).rejects.toMatchObject({
      code: 'ERR_STORE',
      retryAfterSeconds: 5,
      cause: new Error('broken')
    })
  })

  it('makes ERR_STORE of a silence of 5 s', async () => {
    const silent = memoryStore()
    silent.ping = () => new Promise(() => undefined)
    await expect(withTimeout(silent, expiring).ping()).rejects.toMatchObject({
      code: 'ERR_STORE',
      cause: new Error('the store took too long')
    })
  })

  it('closes the store behind it', async () => {
    let isClosed = false
    const store = memoryStore()
    store.close = async () => {
      isClosed = true
    }
    await withTimeout(store, expiring).close()
    expect(isClosed).toBe(true)
  })
})

describe('withinRequest', () => {
  /** Notes for how long it is asked to wait. */
  const noting = (): { waits: number[]; deadline: Deadline } => {
    const waits: number[] = []
    return { waits, deadline: { within: async (seconds, work) => (waits.push(seconds), work()) } }
  }
  const client = { network: '192.0.2.1', isGone: () => false }
  const asRequest = (work: () => Promise<unknown>, seconds?: number): Promise<unknown> =>
    new Promise((resolve, reject) => {
      asClient(
        () => client,
        () => {
          work().then(resolve, reject)
        },
        seconds
      )
    })

  it('ends all waits of a request 10 s after it began, also behind other promises', async () => {
    followClients()
    const { waits, deadline } = noting()
    const wait = (seconds: number): Promise<unknown> =>
      withinRequest(deadline).within(
        seconds,
        () => 1,
        () => new Error()
      )
    await asRequest(async () => {
      await wait(5)
      await Promise.resolve()
      await wait(60)
    })
    expect(waits[0]).toBe(5)
    expect(waits[1]).toBeLessThanOrEqual(10)
  })

  it('leaves what no request waits for, and what goes on after one, its own time', async () => {
    const { waits, deadline } = noting()
    const wait = (): Promise<unknown> =>
      withinRequest(deadline).within(
        60,
        () => 1,
        () => new Error()
      )
    await wait()
    await asRequest(wait, 0)
    expect(waits).toEqual([60, 60])
  })
})
