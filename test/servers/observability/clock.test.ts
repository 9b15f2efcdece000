import { describe, expect, it } from '@jest/globals'
import { clockCheck, steadyClock } from '../../../servers/observability/health-checks.js'

describe('clockCheck', () => {
  const check = (reference: number, times: number[] = [1_000, 1_000]): Promise<void> =>
    clockCheck({ name: 'the database', read: () => Promise.resolve(reference) }, 10, () => times.shift() ?? NaN)()

  it('accepts the difference that it was given', async () => {
    await check(990)
    await check(1_010)
  })

  it('tells a larger difference, and its side', async () => {
    await expect(check(938)).rejects.toThrow('62 s ahead of the database')
    await expect(check(1_011)).rejects.toThrow('11 s behind the database')
  })

  it('says nothing where the other clock cannot be read', async () => {
    await clockCheck({ name: 'the database', read: () => Promise.reject(new Error('away')) }, 10)()
  })

  it('does not take a slow answer for a difference', async () => {
    await check(1_000, [1_000, 1_060])
    await check(1_060, [1_000, 1_060])
  })
})

describe('steadyClock', () => {
  it('shows a jump of the wall clock for at least ten minutes, and takes the new time then', async () => {
    let [wall, steady] = [10_000, 0]
    const read = steadyClock(
      () => wall,
      () => steady
    )
    const check = clockCheck({ name: 'the time that has passed', read }, 10, () => wall)
    const pass = (seconds: number): void => {
      wall += seconds
      steady += seconds
    }
    pass(30)
    await check()
    wall += 62
    await expect(check()).rejects.toThrow('62 s ahead of the time that has passed')
    pass(600)
    await expect(check()).rejects.toThrow('62 s ahead')
    pass(600)
    await check()
  })
})
