import { describe, expect, it, jest } from '@jest/globals'
import { crashAt, crashPoints } from '../support/crash-points.js'

// A process each.
jest.setTimeout(120_000)

describe('a vault that is killed', () => {
  it.concurrent.each(crashPoints.map((point) => [point.name, point] as const))(
    'is whole again, and the node in step with it: %s',
    async (_name, point) => {
      expect(await crashAt(point)).toEqual([])
    }
  )
})
