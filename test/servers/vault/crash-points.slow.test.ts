import { beforeAll, describe, expect, it } from '@jest/globals'
import { allOf } from '../../support/until.js'
import { rounds } from '../../support/time-factor.js'
import { crashAt, crashPoints } from '../../support/vault-beside-node.js'

describe('a vault that is killed', () => {
  let outcomes: unknown[] = []
  // Two processes each.
  beforeAll(async () => {
    outcomes = await allOf(crashPoints, async (point) => {
      const faults: string[] = []
      for (let round = 0; round < rounds(1, 20); round += 1) faults.push(...(await crashAt(point)))
      return faults
    })
  })

  it.each(crashPoints.map(({ name }, place) => [name, place] as const))(
    'has every write that was committed, and brings the node in step: %s',
    (_name, place) => {
      expect(outcomes[place]).toEqual([])
    }
  )
})
