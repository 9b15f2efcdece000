import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { pino } from 'pino'
import { ServerError } from '../../../servers/http/server-error.js'
import { IpfsCircuitBreaker } from '../../../servers/ipfs/ipfs-circuit-breaker.js'

let now = 0
let pings: number[] = []
let isUp = false
let closed = 0
let breaker: IpfsCircuitBreaker

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'performance'] })
  ;[now, pings, isUp, closed] = [0, [], false, 0]
  breaker = new IpfsCircuitBreaker({
    ping: () => {
      pings.push(now / 1_000)
      return isUp ? Promise.resolve() : Promise.reject(new ServerError('ERR_IPFS_UNAVAILABLE'))
    },
    log: pino({ level: 'silent' }),
    onClose: () => (closed += 1),
    nowMilliseconds: () => now
  })
})
afterEach(() => {
  breaker.stop()
  jest.useRealTimers()
})

async function pass(seconds: number): Promise<void> {
  for (let second = 0; second < seconds; second += 1) {
    now += 1_000
    await jest.advanceTimersByTimeAsync(1_000)
  }
}

describe('the circuit breaker', () => {
  it('lets calls pass until one fails', async () => {
    expect([breaker.isOpen, await breaker.allows()]).toEqual([false, true])
    breaker.open(new ServerError('ERR_IPFS_TIMEOUT'))
    expect([breaker.isOpen, await breaker.allows()]).toEqual([true, false])
  })

  it('probes after 1, 2, 4, 8, 16, 32, 60 and 60 s', async () => {
    breaker.open(new ServerError('ERR_IPFS_UNAVAILABLE'))
    await pass(190)
    expect(pings).toEqual([1, 3, 7, 15, 31, 63, 123, 183])
  })

  it('probes at once for a caller, together with others, but not within 5 s of the last call', async () => {
    breaker.open(new ServerError('ERR_IPFS_UNAVAILABLE'))
    await pass(11)
    expect(await breaker.allows()).toBe(false)
    expect(pings).toEqual([1, 3, 7])
    await pass(1)
    ;[isUp, pings] = [true, []]
    expect(await Promise.all([breaker.allows(), breaker.allows(), breaker.allows()])).toEqual([true, true, true])
    expect([pings.length, breaker.isOpen, closed]).toEqual([1, false, 1])
  })

  it('probes as rarely as before where a node answers probes and nothing else', async () => {
    isUp = true
    for (let round = 0; round < 5; round += 1) {
      breaker.open(new ServerError('ERR_IPFS_UNAVAILABLE'))
      await pass(2 ** round)
    }
    expect([pings, closed]).toEqual([[1, 3, 7, 15, 31], 5])
    breaker.recordSuccess()
    breaker.open(new ServerError('ERR_IPFS_UNAVAILABLE'))
    await pass(1)
    expect(pings.at(-1)).toBe(32)
  })

  it('probes no more once it has stopped', async () => {
    breaker.open(new ServerError('ERR_IPFS_UNAVAILABLE'))
    breaker.stop()
    await pass(120)
    expect([pings, await breaker.allows()]).toEqual([[], false])
  })
})
