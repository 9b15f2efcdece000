import { beforeAll, describe, expect, it } from '@jest/globals'
import { allOf } from '../../support/all-of.js'
import { crashAt, crashPoints } from '../../support/crash-points.js'

describe('a vault that is killed', () => {
  let outcomes: unknown[] = []
  // Two processes each.
  beforeAll(async () => {
    outcomes = await allOf(crashPoints, crashAt)
  })

  it.each(crashPoints.map(({ name }, place) => [name, place] as const))(
    'has every write that was committed, and brings the node in step: %s',
    (_name, place) => {
      expect(outcomes[place]).toEqual([])
    }
  )
})
