import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { CircuitBreaker } from '../../../servers/ipfs/circuit-breaker.js'

let events: unknown[]
let breaker: CircuitBreaker

beforeEach(() => {
  jest.useFakeTimers()
  events = []
  breaker = new CircuitBreaker({
    maxCalls: 4,
    onOpen: (error) => events.push(error),
    onRetry: () => events.push('retry'),
    onClose: () => events.push('close')
  })
})
afterEach(() => {
  jest.useRealTimers()
})

describe('CircuitBreaker', () => {
  it('allows all calls until a failure, and then none', () => {
    expect([breaker.maxCalls, breaker.tryAllowCall()]).toEqual([4, true])
    breaker.open('down')
    expect([breaker.maxCalls, breaker.tryAllowCall()]).toEqual([0, false])
  })

  it('allows a single call after 1, 2, 4, 8, 16, 32, 60 and 60 s', () => {
    const waits = Array.from({ length: 8 }, () => {
      breaker.open('down')
      const before = jest.now()
      jest.advanceTimersToNextTimer()
      expect(breaker.maxCalls).toBe(1)
      return (jest.now() - before) / 1_000
    })
    expect(waits).toEqual([1, 2, 4, 8, 16, 32, 60, 60])
  })

  it('reports only the first failure and the first success of an outage', () => {
    breaker.close()
    breaker.open('first')
    breaker.open('second')
    jest.advanceTimersToNextTimer()
    breaker.open('third')
    breaker.close()
    breaker.close()
    expect(events).toEqual(['first', 'retry', 'close'])
    expect(breaker.maxCalls).toBe(4)
  })

  it('waits 1 s again after a success', () => {
    for (const error of ['first', 'second']) {
      breaker.open(error)
      jest.advanceTimersToNextTimer()
    }
    breaker.close()
    breaker.open('third')
    jest.advanceTimersByTime(999)
    expect(breaker.maxCalls).toBe(0)
    jest.advanceTimersByTime(1)
    expect(breaker.maxCalls).toBe(1)
  })

  it('ignores failures of calls that were in flight when it opened', () => {
    breaker.open('first')
    jest.advanceTimersByTime(900)
    breaker.open('second')
    jest.advanceTimersByTime(100)
    expect(breaker.maxCalls).toBe(1)
  })

  it('lets a caller start a call 5 s after the last failure', () => {
    for (let attempt = 0; attempt < 4; attempt += 1) {
      breaker.open('down')
      if (attempt < 3) jest.advanceTimersToNextTimer()
    }
    jest.advanceTimersByTime(4_999)
    expect(breaker.tryAllowCall()).toBe(false)
    jest.advanceTimersByTime(1)
    expect([breaker.tryAllowCall(), breaker.maxCalls]).toEqual([true, 1])
  })

  /** Opens the breaker until an attempt is due only after 8 s, and lets a caller start a call after 5 s. */
  function startCallBeforeAttempt(): void {
    for (let attempt = 0; attempt < 4; attempt += 1) {
      breaker.open('down')
      if (attempt < 3) jest.advanceTimersToNextTimer()
    }
    jest.advanceTimersByTime(5_000)
    expect(breaker.tryAllowCall()).toBe(true)
    events.length = 0
  }

  it("makes no earlier attempt after a caller's call has failed", () => {
    startCallBeforeAttempt()
    breaker.open('down')
    jest.advanceTimersByTime(15_999)
    expect([breaker.maxCalls, events]).toEqual([0, []])
    jest.advanceTimersByTime(1)
    expect([breaker.maxCalls, events]).toEqual([1, ['retry']])
  })

  it("allows all calls after a caller's call has succeeded, also when the next attempt was due", () => {
    startCallBeforeAttempt()
    breaker.close()
    jest.advanceTimersByTime(3_000)
    expect(breaker.maxCalls).toBe(4)
  })

  it('allows no call and makes no attempt after it was stopped', () => {
    breaker.open('down')
    breaker.stop()
    jest.advanceTimersByTime(60_000)
    breaker.open('again')
    expect(breaker.tryAllowCall()).toBe(false)
    expect(events).toEqual(['down'])
  })
})
