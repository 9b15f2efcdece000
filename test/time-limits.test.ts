import { describe, expect, it } from '@jest/globals'
import * as servers from '../servers/config/time-limits.js'
import * as library from '../src/time-limits.js'

/** Lists each limit of the chains with the next one. */
function listPairs<K extends string>(limits: Record<K, number>, order: readonly (readonly K[])[]) {
  const pairs = order.flatMap((chain) => chain.slice(1).map((longer, index) => [chain[index]!, longer] as const))
  return pairs.map(([shorter, longer]) => [shorter, longer, limits[shorter], limits[longer]] as const)
}

describe('time limits', () => {
  it.each([
    ...listPairs(library.limitMilliseconds, library.limitOrder),
    ...listPairs(servers.limitMilliseconds, servers.limitOrder)
  ])('keep %s shorter than %s', (_shorter, _longer, shorterLimit, longerLimit) => {
    expect(shorterLimit).toBeLessThan(longerLimit)
  })

  it.each([
    ['the library', library.limitMilliseconds, library.limitOrder],
    ['the servers', servers.limitMilliseconds, servers.limitOrder]
  ])('have a place in the order of %s', (_package, limits, order) => {
    expect([...new Set<string>(order.flat())].sort()).toEqual(Object.keys(limits).sort())
  })
})
