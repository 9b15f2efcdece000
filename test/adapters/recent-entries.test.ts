import { describe, expect, it } from '@jest/globals'
import { RecentEntries } from '../../src/adapters/recent-entries.js'

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
