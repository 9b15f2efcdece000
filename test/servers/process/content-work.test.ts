import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { repeatWork } from '../../../servers/process/content-work.js'

describe('repeatWork', () => {
  beforeEach(() => void jest.useFakeTimers())
  afterEach(() => void jest.useRealTimers())

  it('works at once, and again 60 to 72 s after each end', async () => {
    const ends: (() => void)[] = []
    const { stop } = repeatWork(() => new Promise((resolve) => ends.push(resolve)), fail)
    expect(ends).toHaveLength(1)
    await jest.advanceTimersByTimeAsync(100_000)
    expect(ends).toHaveLength(1)
    ends[0]!()
    await jest.advanceTimersByTimeAsync(59_999)
    expect(ends).toHaveLength(1)
    await jest.advanceTimersByTimeAsync(12_001)
    expect(ends).toHaveLength(2)
    ends[1]!()
    await stop()
  })

  it('works within a second of soon(), once for several calls, and after work in progress', async () => {
    const ends: (() => void)[] = []
    const { soon, stop } = repeatWork(() => new Promise((resolve) => ends.push(resolve)), fail)
    soon()
    await jest.advanceTimersByTimeAsync(10_000)
    expect(ends).toHaveLength(1)
    ends[0]!()
    await jest.advanceTimersByTimeAsync(1_000)
    expect(ends).toHaveLength(2)
    ends[1]!()
    await jest.advanceTimersByTimeAsync(30_000)
    for (const milliseconds of [0, 500, 499]) {
      soon()
      await jest.advanceTimersByTimeAsync(milliseconds)
    }
    expect(ends).toHaveLength(2)
    await jest.advanceTimersByTimeAsync(1)
    expect(ends).toHaveLength(3)
    ends[2]!()
    await jest.advanceTimersByTimeAsync(59_999)
    expect(ends).toHaveLength(3)
    await stop()
    soon()
    await jest.advanceTimersByTimeAsync(200_000)
    expect(ends).toHaveLength(3)
  })

  it('reports a failure, and tries again', async () => {
    const failures: unknown[] = []
    const error = new Error('no disk')
    const { stop } = repeatWork(
      () => Promise.reject(error),
      (failure) => failures.push(failure)
    )
    await jest.advanceTimersByTimeAsync(72_000)
    expect(failures.length).toBeGreaterThanOrEqual(2)
    expect(new Set(failures)).toEqual(new Set([error]))
    await stop()
  })

  it('aborts the work on stop, and waits for its end', async () => {
    const events: string[] = []
    const { stop } = repeatWork(async (signal) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      events.push('ended')
    }, fail)
    await stop()
    events.push('stopped')
    await jest.advanceTimersByTimeAsync(200_000)
    expect(events).toEqual(['ended', 'stopped'])
  })

  it('abandons work that does not end within 3 s of stop, and ignores its failure', async () => {
    let rejectWork: (error: Error) => void = () => undefined
    const work = (): Promise<void> =>
      new Promise((_resolve, reject) => {
        rejectWork = reject
      })
    const { stop } = repeatWork(work, fail)
    let isStopped = false
    const stopping = stop().then(() => (isStopped = true))
    await jest.advanceTimersByTimeAsync(2_999)
    expect(isStopped).toBe(false)
    await jest.advanceTimersByTimeAsync(1)
    await stopping
    rejectWork(new Error('closed'))
    await jest.advanceTimersByTimeAsync(200_000)
  })
})

function fail(error: unknown): void {
  throw error
}
