import { describe, expect, it } from '@jest/globals'
import { ExpiringCache, RecentEntries } from '../../src/adapters/caches.js'

const NOW = 1_800_000_000
const cacheOf = (maxEntries = 3, maxWeight?: number): ExpiringCache<string> =>
  new ExpiringCache({ lifetimeSeconds: 10, maxEntries, ...(maxWeight !== undefined && { maxWeight }) })

describe('ExpiringCache', () => {
  it('knows a value for its lifetime, and says how much of it is left', () => {
    const cache = cacheOf()
    cache.set('a', 'A', NOW)
    expect(cache.get('a', NOW + 9)).toEqual({ value: 'A', secondsLeft: 1 })
    expect(cache.get('a', NOW + 10)).toBeUndefined()
    expect(cache.get('b', NOW)).toBeUndefined()
  })

  // Answers that no one asked for again once stayed until a thousand others had come.
  it('drops what has expired with the next look, whichever key that is for', () => {
    const cache = cacheOf()
    cache.set('a', 'A', NOW)
    cache.set('b', 'B', NOW + 5)
    cache.get('c', NOW + 10)
    expect(cache.size).toBe(1)
    cache.set('c', 'C', NOW + 15)
    expect(cache.size).toBe(1)
  })

  it('drops what was kept before the clock was set back', () => {
    const cache = cacheOf()
    cache.set('a', 'A', NOW)
    expect(cache.get('a', NOW - 1)).toBeUndefined()
    expect(cache.size).toBe(0)
  })

  it('drops the oldest beyond its number of entries, and a value that is set again is the youngest', () => {
    const cache = cacheOf()
    for (const key of ['a', 'b', 'c', 'a', 'd']) cache.set(key, key, NOW)
    expect(['a', 'b', 'c', 'd'].filter((key) => cache.get(key, NOW))).toEqual(['a', 'c', 'd'])
  })

  it('drops the oldest beyond its weight, and counts what was replaced or has expired no more', () => {
    const cache = cacheOf(100, 10)
    cache.set('a', 'A', NOW, 6)
    cache.set('a', 'A', NOW, 4)
    cache.set('b', 'B', NOW + 5, 6)
    expect(cache.size).toBe(2)
    cache.set('c', 'C', NOW + 10, 4)
    expect(['a', 'b', 'c'].filter((key) => cache.get(key, NOW + 10))).toEqual(['b', 'c'])
    cache.set('d', 'D', NOW + 10, 1)
    expect(['b', 'c', 'd'].filter((key) => cache.get(key, NOW + 10))).toEqual(['c', 'd'])
  })
})

function setEntries(entries: RecentEntries<number>, from: number, to: number): void {
  for (let number = from; number <= to; number += 1) entries.set(`key ${number}`, number)
}

describe('recent entries', () => {
  it('are known with their own value, and a key never set is not', () => {
    const entries = new RecentEntries<number>()
    setEntries(entries, 1, 2)
    expect(entries.get('key 2')).toBe(2)
    expect(entries.get('key 3')).toBeUndefined()
    expect(entries.get('__proto__')).toBeUndefined()
  })

  // A look at an entry moves it to the younger generation, so that each look needs entries of its own.
  it.each([
    [1, true, false],
    [5_000, true, false],
    [5_001, true, true],
    [10_000, true, true],
    [10_001, false, true]
  ])(
    'are two generations of 5,000: number %d of 10,000 is known: %j, of 10,001: %j',
    (number, knownOf10000, knownOf10001) => {
      const knows = [10_000, 10_001].map((count) => {
        const entries = new RecentEntries<number>()
        setEntries(entries, 1, count)
        return entries.get(`key ${number}`) !== undefined
      })
      expect(knows).toEqual([knownOf10000, knownOf10001])
    }
  )

  it('stay known while they are used, however many come', () => {
    const entries = new RecentEntries<number>()
    setEntries(entries, 1, 1)
    for (let generation = 0; generation < 5; generation += 1) {
      setEntries(entries, 10 + generation * 4_000, 10 + generation * 4_000 + 3_999)
      expect(entries.get('key 1')).toBe(1)
    }
  })

  it('are all forgotten when they are cleared, also those of the elder generation', () => {
    const entries = new RecentEntries<number>()
    setEntries(entries, 1, 5_001)
    entries.clear()
    expect([entries.get('key 1'), entries.get('key 5001')]).toEqual([undefined, undefined])
  })
})
