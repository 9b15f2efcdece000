import { describe, expect, it } from '@jest/globals'
import { limitMilliseconds, limitOrder } from '../servers/config/time-limits.js'
import { limitMilliseconds as libraryMilliseconds } from '../src/time-limits.js'

describe('time limits of library and servers', () => {
  const pairs = limitOrder.flatMap((chain) => chain.slice(1).map((longer, index) => [chain[index]!, longer] as const))

  it.each(pairs)('keep %s shorter than %s', (shorter, longer) => {
    expect(limitMilliseconds[shorter]).toBeLessThan(limitMilliseconds[longer])
  })

  it('are equal in the library and in the servers, whose own limits have other names', () => {
    expect(limitMilliseconds).toMatchObject(libraryMilliseconds)
  })

  it('have a place in the order', () => {
    expect([...new Set<string>(limitOrder.flat())].sort()).toEqual(Object.keys(limitMilliseconds).sort())
  })
})
