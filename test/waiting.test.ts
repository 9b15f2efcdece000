import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { createLazy, createSingleFlight } from '../src/lazy.js'
import { systemClock, waitAtMost, within } from '../src/time.js'
import { DidAuthError } from '../src/errors.js'
import type { Deadline } from '../src/ports.js'
import { limitStoreTime } from '../src/stores/with-deadline.js'
import { requestDeadline } from '../src/time.js'
import { memoryStore } from '../src/stores/memory/index.js'

const never = new Promise<string>(() => undefined)
const hang = (): Promise<never> => new Promise(() => undefined)

beforeEach(() => {
  jest.useFakeTimers({ now: 1_700_000_000_999, doNotFake: ['queueMicrotask', 'nextTick', 'setImmediate'] })
})
afterEach(() => {
  jest.useRealTimers()
})

describe('systemClock', () =>
  it('rounds down to whole seconds', () => expect(systemClock.nowSeconds()).toBe(1_700_000_000)))

describe('within and waitAtMost', () => {
  it('resolve to the result of the work, and leave no timer running', async () => {
    expect([await within(5, Promise.resolve('done')), await waitAtMost(5, 'at once')]).toEqual(['done', 'at once'])
    expect(jest.getTimerCount()).toBe(0)
  })

  it('reject like the work', async () => {
    const failed = Promise.reject(new Error('failed'))
    await expect(within(5, failed)).rejects.toThrow('failed')
    await expect(waitAtMost(5, failed)).rejects.toThrow('failed')
  })

  it('time out, the first with an error, the second with undefined', async () => {
    const ended = Promise.allSettled([
      within(5, never, () => new Error('late')),
      within(5, never),
      waitAtMost(5, never)
    ])
    await jest.advanceTimersByTimeAsync(4)
    expect(jest.getTimerCount()).toBe(3)
    await jest.advanceTimersByTimeAsync(1)
    expect(await ended).toEqual([
      { status: 'rejected', reason: new Error('late') },
      { status: 'rejected', reason: new Error('no answer in time') },
      { status: 'fulfilled', value: undefined }
    ])
  })
})

describe('createLazy', () => {
  it('loads once, and again after a failure', async () => {
    const load = jest.fn<() => Promise<string>>().mockRejectedValueOnce(new Error('down')).mockResolvedValue('up')
    const get = createLazy(load)
    expect(load).toHaveBeenCalledTimes(0)
    await expect(Promise.all([get(), get()])).rejects.toThrow('down')
    expect(load).toHaveBeenCalledTimes(1)
    expect([await get(), await get()]).toEqual(['up', 'up'])
    expect(load).toHaveBeenCalledTimes(2)
  })

  it('discards only the promise that it caches', async () => {
    const load = jest.fn(async () => 'up')
    const get = createLazy(load)
    const first = get()
    get.forget(Promise.resolve('up'))
    expect(get()).toBe(first)
    get.forget(first)
    await get()
    expect(load).toHaveBeenCalledTimes(2)
  })
})

describe('createSingleFlight', () => {
  it('shares one call per key among concurrent callers, and then calls again', async () => {
    const call = jest.fn(async () => call.mock.calls.length)
    const once = createSingleFlight<number>()
    expect(await Promise.all([once(call, 'a'), once(call, 'a'), once(call, 'b')])).toEqual([1, 1, 2])
    expect(call).toHaveBeenCalledTimes(2)
    expect(await once(call, 'a')).toBe(3)
  })

  it('calls again after a failure', async () => {
    const once = createSingleFlight<string>()
    await expect(once(() => Promise.reject(new Error('down')))).rejects.toThrow('down')
    expect(await once(async () => 'up')).toBe('up')
  })
})

/** Milliseconds until a wait of so many seconds has ended. */
async function waited(deadline: Deadline, seconds: number): Promise<number> {
  const since = performance.now()
  const lateError = new Error('late')
  await deadline.within(seconds, hang, () => lateError).catch((error: unknown) => expect(error).toBe(lateError))
  return performance.now() - since
}

/** Lets the time of the fakes pass until `work` has ended. */
async function inFakeTime<T>(work: Promise<T>): Promise<T> {
  let hasEnded = false
  const ended = work.finally(() => (hasEnded = true))
  ended.catch(() => undefined)
  for (let seconds = 0; seconds < 120 && !hasEnded; seconds += 1) await jest.advanceTimersByTimeAsync(1000)
  return ended
}

describe('requestDeadline', () =>
  it('ends all waits of a request 10 s after it began, and starts no more', async () => {
    const deadline = requestDeadline()
    const work = jest.fn(hang)
    const waits = async (): Promise<number[]> => [await waited(deadline, 7), await waited(deadline, 5)]
    expect(await inFakeTime(waits())).toEqual([7_000, 3_000])
    await expect(deadline.within(1, work, () => new Error('late'))).rejects.toThrow('late')
    expect(work).not.toHaveBeenCalled()
  }))

describe('limitStoreTime', () => {
  it('passes arguments and results on', async () => {
    const store = limitStoreTime(memoryStore())()
    const key = { service: 'https://a.example', did: 'did:a:b', window: 1 }
    const use = { ...key, flow: 'logIn', useCount: 0, consumesBoth: false, nowSeconds: 1, expiresAtSeconds: 2 } as const
    expect(await store.consumeChallenge(use)).toBe('consumed')
    expect(await store.countChallengeUses(key)).toEqual({ logIn: 1, signUp: 0 })
  })

  it('has an optional verb only if the store has it', async () => {
    const { listEndedSessions: _without, ...lacking } = memoryStore()
    expect(limitStoreTime(lacking)().listEndedSessions).toBeUndefined()
    expect(await limitStoreTime(memoryStore())().listEndedSessions!('https://a.example', 0, 1)).toEqual([])
  })

  it.each([
    ['throws', () => { throw new Error('broken') }], // prettier-ignore
    ['rejects', () => Promise.reject(new Error('broken'))]
  ])(
    'turns errors of a store that %s into ERR_STORE, with the cause for the log and 5 s to wait',
    async (_how, fail) => {
      const broken = Object.assign(memoryStore(), { findSession: fail })
      const refused = { code: 'ERR_STORE', retryAfterSeconds: 5, cause: new Error('broken') }
      await expect(limitStoreTime(broken)().findSession('https://a.example', 'id')).rejects.toMatchObject(refused)
    }
  )

  it('keeps ERR_BUSY and its own wait', async () => {
    const busy = new DidAuthError('ERR_BUSY', { retryAfterSeconds: 1 })
    const store = limitStoreTime(Object.assign(memoryStore(), { ping: () => Promise.reject(busy) }))()
    await expect(store.ping()).rejects.toBe(busy)
  })

  it('turns 5 s without a response into ERR_STORE', async () => {
    const store = limitStoreTime(Object.assign(memoryStore(), { ping: hang }))()
    const since = performance.now()
    await expect(inFakeTime(store.ping())).rejects.toMatchObject({
      code: 'ERR_STORE',
      cause: new Error('the store took too long')
    })
    expect(performance.now() - since).toBe(5_000)
  })

  it('ends a verb with the request that called it', async () => {
    const storeFor = limitStoreTime(Object.assign(memoryStore(), { ping: hang }))
    const [first, second] = [storeFor(requestDeadline()), storeFor(requestDeadline())]
    const since = performance.now()
    const pings = async (): Promise<void> => {
      for (const store of [first, first, first, second]) await store.ping().catch(() => undefined)
    }
    await inFakeTime(pings())
    expect(performance.now() - since).toBe(10_000)
  })

  it('closes the wrapped store', async () => {
    const close = jest.fn(async () => undefined)
    await limitStoreTime(Object.assign(memoryStore(), { close }))().close()
    expect(close).toHaveBeenCalledTimes(1)
  })
})
