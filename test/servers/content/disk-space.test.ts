import { beforeEach, describe, expect, it } from '@jest/globals'
import { createStoreBound } from '../../../servers/content/disk-space.js'

const full = expect.objectContaining({ code: 'ERR_STORAGE_FULL' })

let measurements: (number | Error)[]
let milliseconds: number
let spaceMade: number
beforeEach(() => {
  ;[measurements, milliseconds, spaceMade] = [[], 0, 0]
})

/** Creates a bound of 90 whose measurements the test gives, each for 10 s. */
function createBound(): () => Promise<void> {
  const measure = async (): Promise<number> => {
    const size = measurements.shift()
    if (typeof size === 'number') return size
    throw size ?? new Error('not expected')
  }
  const makeSpace = async (): Promise<void> => void (spaceMade += 1)
  const describeSize = (size: number): string => `${size} used`
  const bound = { measure, max: 90, freshMilliseconds: 10_000, describe: describeSize }
  return createStoreBound(bound, makeSpace, () => milliseconds)
}

describe('createStoreBound', () => {
  it('accepts exactly the maximum, and refuses more', async () => {
    measurements = [90]
    await createBound()()
    measurements = [91, 91]
    await expect(createBound()()).rejects.toEqual(full)
  })

  it('measures again after it has made space, and accepts if that was enough', async () => {
    measurements = [95, 80]
    await createBound()()
    expect([measurements, spaceMade]).toEqual([[], 1])
  })

  it('measures a full store again after 1 s, and another after 10 s', async () => {
    const assertSpace = createBound()
    measurements = [95, 95]
    await expect(assertSpace()).rejects.toEqual(full)
    milliseconds = 999
    await expect(assertSpace()).rejects.toEqual(full)
    milliseconds = 1_000
    measurements = [80]
    await assertSpace()
    milliseconds = 10_999
    await assertSpace()
    milliseconds = 11_000
    measurements = [85]
    await assertSpace()
    expect(measurements).toEqual([])
  })

  it('uses the last measurement if the store cannot be measured', async () => {
    const assertSpace = createBound()
    measurements = [95, 95]
    await expect(assertSpace()).rejects.toEqual(full)
    milliseconds = 1_000
    measurements = [new Error('away'), new Error('away')]
    await expect(assertSpace()).rejects.toEqual(full)
  })
})
