import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { raceOfWriters } from '../../../support/content-race.js'
import { failingObjects, randomEnds } from '../../../support/content-faults.js'
import { usePostgresContents, type PostgresContents } from '../../../support/postgres-contents.js'

const make = usePostgresContents()
let files: PostgresContents
beforeEach(async () => {
  files = await make()
})
afterEach(() => files.remove())

describe('writers of the same few users and contents on four stores, collectors beside them', () => {
  it('lose nothing, leave nothing behind and never wait for each other in a circle', async () => {
    const { faults, retries, refusals } = await raceOfWriters(files, { operations: 400, stores: 4 })
    expect(faults).toEqual([])
    expect(refusals).toEqual([])
    expect(retries).not.toHaveProperty('40P01')
  })

  it('lose nothing acknowledged when objects fail before and after they are written or deleted', async () => {
    const { faults, refusals } = await raceOfWriters(files, { operations: 200, stores: 2, objects: failingObjects() })
    expect(faults).toEqual([])
    expect(refusals).toContain('Storage unavailable, try again: EIO')
  })

  it('lose nothing acknowledged when connections end at any moment', async () => {
    const { faults, refusals } = await raceOfWriters(files, { operations: 300, stores: 3, beside: randomEnds(files) })
    expect(faults).toEqual([])
    expect(refusals.every((reason) => reason.startsWith('Storage unavailable'))).toBe(true)
  })
})
