import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { openLoad } from './open-load.js'
import { reportTimes } from './report-figure.js'

describe('reportTimes', () => {
  const print = jest.spyOn(console, 'log').mockImplementation(() => undefined)

  afterEach(() => {
    process.exitCode = undefined
  })

  it.each([
    ['ok at a load of 2', { isMet: true, isControlMet: true, load: 2 }, 'F19  ok   p99', undefined],
    ['a miss', { isMet: false, isControlMet: true, load: 2 }, 'F19  MISS p99', 1],
    [
      'not measurable at a load above 2',
      { isMet: false, isControlMet: true, load: 2.1 },
      'F19  not measurable',
      undefined
    ],
    [
      'not measurable where the control misses',
      { isMet: false, isControlMet: false, load: 0 },
      'F19  not measurable',
      undefined
    ]
  ])('says %s, and the load', (_, outcome, line, exitCode) => {
    reportTimes('F19', 'p99', outcome)
    expect(print.mock.lastCall?.[0]).toMatch(new RegExp(`^${line}.*\\[load \\d+\\.\\d\\]$`))
    expect(process.exitCode).toBe(exitCode)
  })
})

describe('openLoad', () => {
  it('begins what is due although nothing before it has ended', async () => {
    let begun = 0
    let end: () => void = () => undefined
    const all = new Promise<void>((resolve) => (end = resolve))
    const milliseconds = await openLoad(10_000, 20, () => {
      begun += 1
      if (begun === 20) end()
      return all
    })
    expect(milliseconds).toHaveLength(20)
  })
})
