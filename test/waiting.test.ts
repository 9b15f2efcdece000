import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { lazy } from '../src/lazy.js'
import { singleFlight } from '../src/single-flight.js'
import { systemClock, waitAtMost, within } from '../src/time.js'

const never = new Promise<string>(() => undefined)

beforeEach(() => {
  jest.useFakeTimers({ now: 1_700_000_000_999 })
})
afterEach(() => {
  jest.useRealTimers()
})

describe('systemClock', () => {
  it('cuts a fraction of a second off', () => {
    expect(systemClock.nowSeconds()).toBe(1_700_000_000)
  })
})

describe('within and waitAtMost', () => {
  it('answer what the work resolves to, and leave no timer', async () => {
    expect([await within(5, Promise.resolve('done')), await waitAtMost(5, 'at once')]).toEqual(['done', 'at once'])
    expect(jest.getTimerCount()).toBe(0)
  })

  it('reject as the work does', async () => {
    const failed = Promise.reject(new Error('failed'))
    await expect(within(5, failed)).rejects.toThrow('failed')
    await expect(waitAtMost(5, failed)).rejects.toThrow('failed')
  })

  it('end after their time, the first with an error, the second with undefined', async () => {
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

describe('lazy', () => {
  it('loads once, and again after a failure', async () => {
    const load = jest.fn<() => Promise<string>>().mockRejectedValueOnce(new Error('down')).mockResolvedValue('up')
    const get = lazy(load)
    expect(load).toHaveBeenCalledTimes(0)
    await expect(Promise.all([get(), get()])).rejects.toThrow('down')
    expect(load).toHaveBeenCalledTimes(1)
    expect([await get(), await get()]).toEqual(['up', 'up'])
    expect(load).toHaveBeenCalledTimes(2)
  })

  it('forgets the promise that it keeps, and no other', async () => {
    const load = jest.fn(async () => 'up')
    const get = lazy(load)
    const first = get()
    get.forget(Promise.resolve('up'))
    expect(get()).toBe(first)
    get.forget(first)
    await get()
    expect(load).toHaveBeenCalledTimes(2)
  })
})

describe('singleFlight', () => {
  it('gives all who ask meanwhile the result of one call for each key, and then calls again', async () => {
    const call = jest.fn(async () => call.mock.calls.length)
    const once = singleFlight<number>()
    expect(await Promise.all([once(call, 'a'), once(call, 'a'), once(call, 'b')])).toEqual([1, 1, 2])
    expect(call).toHaveBeenCalledTimes(2)
    expect(await once(call, 'a')).toBe(3)
  })

  it('calls again after a failure', async () => {
    const once = singleFlight<string>()
    await expect(once(() => Promise.reject(new Error('down')))).rejects.toThrow('down')
    expect(await once(async () => 'up')).toBe('up')
  })
})
