import { describe, expect, it } from '@jest/globals'
import { fitScalability } from './usl.js'

const law = (sigma: number, kappa: number): Map<number, number> =>
  new Map([1, 2, 4, 8].map((n) => [n, (70 * n) / (1 + sigma * (n - 1) + kappa * n * (n - 1))]))

describe('fitScalability', () => {
  it.each([
    [0, 0],
    [0.05, 0],
    [0, 0.002],
    [0.03, 0.001]
  ])('finds σ %d and κ %d again', (sigma, kappa) => {
    const fitted = fitScalability(law(sigma, kappa))
    expect(fitted.sigma).toBeCloseTo(sigma, 10)
    expect(fitted.kappa).toBeCloseTo(kappa, 10)
  })

  it('finds no negative number where noise makes more instances faster than in proportion', () => {
    const fitted = fitScalability(
      new Map([
        [1, 100],
        [2, 205],
        [4, 410]
      ])
    )
    expect(fitted).toEqual({ sigma: 0, kappa: 0 })
  })
})
