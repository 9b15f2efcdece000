import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { ByteBudget, MinimumRate } from '../../../servers/content/limits.js'

const busy = expect.objectContaining({ code: 'ERR_BUSY' })

beforeEach(() => {
  jest.useFakeTimers()
})
afterEach(() => {
  jest.useRealTimers()
})

describe('ByteBudget', () => {
  it('hands out its maximum, and not one byte more', () => {
    const budget = new ByteBudget({ maxBytes: 100 })
    const release = budget.acquire(60)
    expect(() => budget.acquire(41)).toThrow(busy)
    budget.acquire(40)
    release()
    budget.acquire(60)
    expect(() => budget.acquire(1)).toThrow(busy)
  })

  it('limits one owner to a quarter, while other owners get theirs', () => {
    const budget = new ByteBudget({ maxBytes: 100 })
    const release = budget.acquire(20, 'a')
    expect(() => budget.acquire(6, 'a')).toThrow(busy)
    budget.acquire(5, 'a')
    budget.acquire(25, 'b')
    release()
    budget.acquire(20, 'a')
    expect(() => budget.acquire(1, 'a')).toThrow(busy)
  })

  it('counts a request above the share as the share, and grants it to an owner who holds nothing', () => {
    const budget = new ByteBudget({ maxBytes: 100 })
    const release = budget.acquire(90, 'a')
    expect(() => budget.acquire(1, 'a')).toThrow(busy)
    budget.acquire(75)
    release()
    budget.acquire(25, 'a')
  })

  it('releases bytes once, even if release is called again', () => {
    const budget = new ByteBudget({ maxBytes: 100, maxBytesPerOwner: 50 })
    const release = budget.acquire(50, 'a')
    budget.acquire(50, 'b')
    release()
    release()
    budget.acquire(50, 'a')
    expect(() => budget.acquire(1, 'c')).toThrow(busy)
  })

  it('charges nothing for a refused request', () => {
    const budget = new ByteBudget({ maxBytes: 100 })
    const release = budget.acquire(90)
    expect(() => budget.acquire(20, 'a')).toThrow(busy)
    release()
    budget.acquire(25, 'a')
    budget.acquire(75)
  })
})

describe('MinimumRate', () => {
  /** Starts a transfer. `after` advances the clock while bytes arrive evenly, and returns whether it was too slow. */
  function startTransfer() {
    const state = { isTooSlow: false }
    const rate = new MinimumRate(() => (state.isTooSlow = true))
    const after = (milliseconds: number, bytesPerSecond = 0): boolean => {
      for (let passed = 0; passed < milliseconds; passed += 100) {
        jest.advanceTimersByTime(100)
        rate.add(bytesPerSecond / 10)
      }
      return state.isTooSlow
    }
    return { rate, after }
  }

  it('ends a transfer that sends no byte for 5 s', () => {
    const { after } = startTransfer()
    expect([after(4_900), after(100)]).toEqual([false, true])
  })

  it('ends a transfer below 4 KiB/s, and none at 4 KiB/s', () =>
    expect([startTransfer().after(600_000, 4_096), startTransfer().after(30_000, 3_000)]).toEqual([false, true]))

  it('allows a pause of 15 s after a fast start, and no longer pause', () => {
    const { after } = startTransfer()
    expect([after(1_000, 1_048_576), after(14_900), after(100)]).toEqual([false, false, true])
  })

  it('does not count the time during which it is paused', () => {
    const { rate, after } = startTransfer()
    after(4_000)
    rate.pause()
    rate.pause()
    expect(after(60_000)).toBe(false)
    rate.resume()
    rate.resume()
    expect([after(900), after(100)]).toEqual([false, true])
  })

  it('ends no transfer after it was stopped', () => {
    const { rate, after } = startTransfer()
    rate.stop()
    expect(after(60_000)).toBe(false)
    expect(jest.getTimerCount()).toBe(0)
  })
})
