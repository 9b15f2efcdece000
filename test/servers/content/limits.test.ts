import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import type { IncomingMessage } from 'node:http'
import { PassThrough } from 'node:stream'
import { ByteBudget, MinimumRate, receiveBody } from '../../../servers/content/limits.js'

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

  it.each([
    ['a /48', '2001:db8:1', '2001:db8:2'],
    ['a /24', '192.0.2', '192.0.3']
  ])('limits %s to a half, while other networks get their quarters', (_what, site, otherSite) => {
    const budget = new ByteBudget({ maxBytes: 100 })
    const toNetwork = (prefix: string, number: number): string =>
      prefix.includes(':') ? `${prefix}:${number}::/64` : `${prefix}.${number}`
    const releases = [1, 2, 3, 4, 5].map((number) => budget.tryAcquire(20, toNetwork(site, number)))
    expect(releases.map((release) => release !== undefined)).toEqual([true, true, false, false, false])
    for (const number of [1, 2]) budget.acquire(25, toNetwork(otherSite, number))
    releases[0]!()
    releases[1]!()
    for (const number of [3, 4]) budget.acquire(25, toNetwork(site, number))
    expect(() => budget.acquire(1, toNetwork(site, 5))).toThrow(busy)
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

  it('allows a pause of 15 s after bytes that arrived while it was paused, and no longer pause', () => {
    const { rate, after } = startTransfer()
    rate.pause()
    after(60_000)
    rate.add(1_048_576)
    rate.resume()
    expect([after(14_900), after(100)]).toEqual([false, true])
  })

  it('ends no transfer after it was stopped', () => {
    const { rate, after } = startTransfer()
    rate.stop()
    expect(after(60_000)).toBe(false)
    expect(jest.getTimerCount()).toBe(0)
  })
})

describe('receiveBody', () => {
  /** Receives a body whose chunks the test writes. `settled` has the outcome once there is one. */
  function startBody(use: (chunk: Buffer) => Promise<unknown> | undefined) {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] })
    const body = new PassThrough()
    const settled: unknown[] = []
    void receiveBody(body as unknown as IncomingMessage, use).then(
      () => settled.push('complete'),
      (error: unknown) => settled.push((error as { code: string }).code)
    )
    const nextTurn = (): Promise<void> => new Promise(setImmediate)
    return { body, settled, nextTurn }
  }

  it('receives a body at the minimum rate, however long it takes', async () => {
    const { body, settled, nextTurn } = startBody(() => undefined)
    for (let second = 0; second < 60; second += 1) {
      body.write(Buffer.alloc(4_096))
      await nextTurn()
      jest.advanceTimersByTime(1_000)
    }
    expect(settled).toEqual([])
    body.end()
    while (settled.length === 0) await nextTurn()
    expect(settled).toEqual(['complete'])
  })

  it('refuses a body that was cut off only after `use` has ended, which may be writing to its file', async () => {
    let endUse = (): void => undefined
    const { body, settled, nextTurn } = startBody(() => new Promise<void>((resolve) => (endUse = resolve)))
    body.write('a')
    await nextTurn()
    const closed = new Promise((resolve) => body.once('close', resolve))
    body.destroy()
    await closed
    await nextTurn()
    expect(settled).toEqual([])
    endUse()
    while (settled.length === 0) await nextTurn()
    expect(settled).toEqual(['ERR_JSON'])
  })
})
