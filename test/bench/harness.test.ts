import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { measure, applyOpenLoad, reportTimes } from './harness.js'
import { fitScalability } from './usl.js'

const print = jest.spyOn(console, 'log').mockImplementation(() => undefined)
afterEach(() => {
  process.exitCode = undefined
})

describe('reportTimes', () => {
  const lax = { isMet: false, isControlMet: true, load: 2.1 }
  it.each([
    ['"ok" at a load of 2', { isMet: true, isControlMet: true, load: 2 }, 'F19  ok   p99', undefined],
    ['"MISS"', { isMet: false, isControlMet: true, load: 2 }, 'F19  MISS p99', 1],
    ['"not measurable" at a load above 2', lax, 'F19  not measurable', undefined],
    ['"not measurable" if the control misses the goal', { ...lax, isControlMet: false, load: 0 }, 'F19  not', undefined]
  ])('prints %s, and the load', (_, outcome, line, exitCode) => {
    reportTimes('F19', 'p99', outcome)
    expect(print.mock.lastCall?.[0]).toMatch(new RegExp(`^${line}.*\\[load \\d+\\.\\d\\]$`))
    expect(process.exitCode).toBe(exitCode)
  })
})

describe('measure', () =>
  it('alternates, ignores the first round, and prints the medians and their ratio', async () => {
    const order: string[] = []
    const numbers = { bare: [1_000, 10, 20, 30], ours: [1, 20, 40, 60] }
    const work = (name: 'bare' | 'ours') => async (): Promise<number> => {
      order.push(name)
      return numbers[name].shift()!
    }
    const works = { bare: work('bare'), ours: work('ours') }
    await measure('P1 name', { goal: '>= 0.9', unit: 'µs', rounds: 3 }, works)
    expect(order).toEqual(Array.from({ length: 4 }, () => ['bare', 'ours']).flat())
    expect(print.mock.lastCall?.[0]).toMatch(/^P1 name +0\.50 {2}\(goal >= 0\.9; bare \/ ours 20\.0 \/ 40\.0 µs\)/)
  }))

describe('applyOpenLoad', () =>
  it('starts work on schedule even if earlier work has not finished', async () => {
    let begun = 0
    let end: () => void = () => undefined
    const all = new Promise<void>((resolve) => (end = resolve))
    const milliseconds = await applyOpenLoad(10_000, 20, () => {
      begun += 1
      if (begun === 20) end()
      return all
    })
    expect(milliseconds).toHaveLength(20)
  }))

describe('fitScalability', () => {
  const law = (sigma: number, kappa: number): Map<number, number> =>
    new Map([1, 2, 4, 8].map((n) => [n, (70 * n) / (1 + sigma * (n - 1) + kappa * n * (n - 1))]))

  it.each([
    [0, 0],
    [0.05, 0],
    [0, 0.002],
    [0.03, 0.001]
  ])('fits σ %d and κ %d', (sigma, kappa) => {
    const fitted = fitScalability(law(sigma, kappa))
    expect(fitted.sigma).toBeCloseTo(sigma, 10)
    expect(fitted.kappa).toBeCloseTo(kappa, 10)
  })

  it('returns no negative number if noise makes scaling look better than linear', () => {
    const faster = [1, 2, 4].map((n) => [n, n === 1 ? 100 : 102.5 * n] as const)
    expect(fitScalability(new Map(faster))).toEqual({ sigma: 0, kappa: 0 })
  })
})
