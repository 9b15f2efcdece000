import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import type { Deadline } from '../src/ports.js'
import { ownTime, requestDeadline, withStoreDeadline } from '../src/request-deadline.js'
import { memoryStore } from '../src/stores/memory/index.js'

const never = (): Promise<never> => new Promise(() => undefined)

/** Milliseconds until a wait of so many seconds has ended. */
async function waited(deadline: Deadline, seconds: number): Promise<number> {
  const since = performance.now()
  const late = new Error('late')
  await deadline
    .within(seconds, never, () => late)
    .catch((error: unknown) => {
      expect(error).toBe(late)
    })
  return performance.now() - since
}

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['queueMicrotask', 'nextTick', 'setImmediate'] })
})
afterEach(() => {
  jest.useRealTimers()
})

/** Lets the time of the fakes pass until `work` has ended. */
async function inFakeTime<T>(work: Promise<T>): Promise<T> {
  let hasEnded = false
  const ended = work.finally(() => (hasEnded = true))
  ended.catch(() => undefined)
  for (let seconds = 0; seconds < 120 && !hasEnded; seconds += 1) await jest.advanceTimersByTimeAsync(1000)
  return ended
}

describe('requestDeadline', () => {
  it('ends all waits of a request 10 s after it began, and begins no more', async () => {
    const deadline = requestDeadline()
    const work = jest.fn(never)
    const waits = async (): Promise<number[]> => [await waited(deadline, 7), await waited(deadline, 5)]
    expect(await inFakeTime(waits())).toEqual([7_000, 3_000])
    await expect(deadline.within(1, work, () => new Error('late'))).rejects.toThrow('late')
    expect(work).not.toHaveBeenCalled()
  })
})

describe('withStoreDeadline', () => {
  it('passes arguments and results through', async () => {
    const store = withStoreDeadline(memoryStore())(ownTime)
    const key = { service: 'https://a.example', did: 'did:a:b', window: 1 }
    const use = { ...key, flow: 'logIn', useCount: 0, consumesBoth: false, nowSeconds: 1, expiresAtSeconds: 2 } as const
    expect(await store.consumeChallenge(use)).toBe('consumed')
    expect(await store.countChallengeUses(key)).toEqual({ logIn: 1, signUp: 0 })
  })

  it.each([
    ['throws', () => { throw new Error('broken') }], // prettier-ignore
    ['rejects', () => Promise.reject(new Error('broken'))]
  ])('makes ERR_STORE of a store that %s, with the cause for the log and 5 s to wait', async (_how, fail) => {
    const broken = Object.assign(memoryStore(), { findSession: fail })
    const refused = { code: 'ERR_STORE', retryAfterSeconds: 5, cause: new Error('broken') }
    await expect(withStoreDeadline(broken)(ownTime).findSession('https://a.example', 'id')).rejects.toMatchObject(
      refused
    )
  })

  it('makes ERR_STORE of a silence of 5 s', async () => {
    const store = withStoreDeadline(Object.assign(memoryStore(), { ping: never }))(ownTime)
    const since = performance.now()
    await expect(inFakeTime(store.ping())).rejects.toMatchObject({
      code: 'ERR_STORE',
      cause: new Error('the store took too long')
    })
    expect(performance.now() - since).toBe(5_000)
  })

  it('ends a verb with the request that it is for', async () => {
    const storeFor = withStoreDeadline(Object.assign(memoryStore(), { ping: never }))
    const [first, second] = [storeFor(requestDeadline()), storeFor(requestDeadline())]
    const since = performance.now()
    const pings = async (): Promise<void> => {
      for (const store of [first, first, first, second]) await store.ping().catch(() => undefined)
    }
    await inFakeTime(pings())
    expect(performance.now() - since).toBe(10_000)
  })

  it('closes the store behind it', async () => {
    const close = jest.fn(async () => undefined)
    await withStoreDeadline(Object.assign(memoryStore(), { close }))(ownTime).close()
    expect(close).toHaveBeenCalledTimes(1)
  })
})
