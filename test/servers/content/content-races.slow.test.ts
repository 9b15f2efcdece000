import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { failingObjects, raceOfWriters, randomEnds } from '../../support/models/content-race.js'
import { usePostgresContents, type PostgresContents } from '../../support/servers/postgres-contents.js'
import { note, rounds } from '../../support/fixtures/time-factor.js'

const OPERATIONS = { race: rounds(30_000, 100_000), raceWithFaults: rounds(5_000, 10_000) }

const make = usePostgresContents()
let files: PostgresContents
beforeEach(async () => {
  files = await make()
})
afterEach(() => files.remove())

const countDeadlocks = async (): Promise<number> => {
  const [row] = await files.query('SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()')
  return Number(row?.deadlocks)
}

describe('operations of 20 writers on 5 users and 6 contents', () => {
  it('lose nothing, leave nothing behind, and cause no deadlock', async () => {
    const { faults, refusals } = await raceOfWriters(files, { operations: OPERATIONS.race, stores: 4 })
    expect({ faults, refusals, deadlocks: await countDeadlocks() }).toEqual({ faults: [], refusals: [], deadlocks: 0 })
    note('N10', `${OPERATIONS.race} operations, repeated ${JSON.stringify(files.retries())}`)
  })

  it('lose nothing acknowledged while objects fail and connections break', async () => {
    const { faults, refusals } = await raceOfWriters(files, {
      operations: OPERATIONS.raceWithFaults,
      stores: 4,
      objects: failingObjects(),
      background: randomEnds(files)
    })
    expect({ faults, deadlocks: await countDeadlocks() }).toEqual({ faults: [], deadlocks: 0 })
    note('N10', `${OPERATIONS.raceWithFaults} operations with faults, ${refusals.length} refused`)
  })
})
