import { describe, expect, it } from '@jest/globals'
import { simulate, type SimulationOptions } from './simulation.js'

/** One kind of request, all of whose time passes at one place. */
const alone = (details: Partial<SimulationOptions>, perSecond: number, seconds: number): SimulationOptions => ({
  kinds: [{ perSecond, nodeSeconds: 0, trips: [{ to: 'database', seconds }] }],
  seconds: 8_000,
  warmUpSeconds: 100,
  instances: 1,
  poolSize: Infinity,
  tripSeconds: 0,
  databaseCores: 1,
  deadlineSeconds: Infinity,
  ...details
})

/** The mean wait in M/M/c: Erlang's formula C. */
function erlangWait(perSecond: number, serviceSeconds: number, cores: number): number {
  const load = perSecond * serviceSeconds
  let [term, sum] = [1, 0]
  for (let busy = 0; busy < cores; busy += 1) {
    sum += term
    term *= load / (busy + 1)
  }
  const queueing = (term * cores) / (cores - load)
  return (queueing / (sum + queueing)) * (serviceSeconds / (cores - load))
}

const isWithin = (measured: number, expected: number, share: number): boolean =>
  Math.abs(measured / expected - 1) <= share

describe('simulate', () => {
  it.each([
    { cores: 1, perSecond: 5, load: 0.5 },
    { cores: 1, perSecond: 8, load: 0.8 },
    { cores: 4, perSecond: 28, load: 2.8 }
  ])('is M/M/$cores at the database, $perSecond requests a second', ({ cores, perSecond, load }) => {
    const result = simulate(alone({ databaseCores: cores }, perSecond, 0.1))
    expect(isWithin(result.databaseCores, load, 0.02)).toBe(true)
    expect(isWithin(result.databaseWaitMean, erlangWait(perSecond, 0.1, cores), 0.08)).toBe(true)
  })

  it('is M/M/1 at an instance', () => {
    const kinds = [{ perSecond: 12, nodeSeconds: 0.1, trips: [] }]
    const result = simulate(alone({ kinds, instances: 2 }, 0, 0))
    expect(isWithin(result.instanceUtilisation, 0.6, 0.02)).toBe(true)
    // Requests that are dealt out in turn come more evenly than at random, so they wait less than 0.15 s.
    expect(result.instanceWaitMean).toBeLessThan(0.15)
    const one = simulate(alone({ kinds: [{ perSecond: 6, nodeSeconds: 0.1, trips: [] }] }, 0, 0))
    expect(isWithin(one.instanceWaitMean, 0.15, 0.08)).toBe(true)
  })

  it('wakes an instance only where nothing is running', () => {
    const kinds = [{ perSecond: 6, nodeSeconds: 0.1, trips: [] }]
    const { instanceUtilisation } = simulate(alone({ kinds, wakeSeconds: { node: 0.05, database: 0 } }, 0, 0))
    // ρ = λ(s + w(1 − ρ))
    expect(isWithin(instanceUtilisation, (0.6 + 0.3) / 1.3, 0.03)).toBe(true)
  })

  it('makes as many connections as the pool has the limit, and their round trips the time', () => {
    // Four connections and trips of 0.1 s: 40 a second at most, of 60 that come.
    const result = simulate(alone({ poolSize: 4, maxWaiting: 20, tripSeconds: 0.1, seconds: 200 }, 60, 1e-9))
    expect(isWithin(result.served / 200, 40, 0.05)).toBe(true)
    expect(isWithin(result.refused / 200, 20, 0.1)).toBe(true)
  })

  it('gives the same result for the same seed, and another for another', () => {
    const options = alone({ seconds: 100 }, 8, 0.1)
    expect(simulate(options)).toEqual(simulate(options))
    expect(simulate({ ...options, seed: 2 })).not.toEqual(simulate(options))
  })

  it('refuses during a failover what waits longer than its time, and serves all before and after it', () => {
    const options = alone({ seconds: 60, deadlineSeconds: 4, poolSize: 10, databaseCores: 2 }, 10, 0.01)
    expect(simulate(options).refused).toBe(0)
    const { refused, served } = simulate({ ...options, failover: { atSeconds: 20, seconds: 10 } })
    // All of the first 6 s of it, about 60, and none of the last 4 s.
    expect(refused).toBeGreaterThan(40)
    expect(refused).toBeLessThan(80)
    expect(isWithin(served + refused, 600, 0.15)).toBe(true)
  })

  it('serves in the end those who come again', () => {
    const options = alone({ seconds: 60, deadlineSeconds: 4, poolSize: 10, databaseCores: 2 }, 40, 0.01)
    const failover = { atSeconds: 20, seconds: 20 }
    const without = simulate({ ...options, failover })
    const stormy = simulate({ ...options, failover, retry: { times: 5, afterSeconds: 5 } })
    expect(without.served).toBeLessThan(1_900)
    expect(isWithin(stormy.served, 2_400, 0.06)).toBe(true)
    expect(stormy.refused).toBeGreaterThan(without.refused)
  })
})
