import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { failingObjects, raceOfWriters, randomEnds } from '../../support/models/content-race.js'
import { sqliteFolder } from '../../support/servers/content-stores.js'
import { usePostgresContents, type PostgresContents } from '../../support/servers/postgres-contents.js'
import { note, rounds } from '../../support/fixtures/time-factor.js'
import { contentRaces } from './content-races.js'

const OPERATIONS = { race: rounds(10_000, 100_000), raceWithFaults: rounds(3_000, 10_000) }

const make = usePostgresContents()
const FULL = { sequences: rounds(10, 100), operations: 400, operationsWithFaults: 200, rounds: 12 }

describe('content stores on SQLite', () => {
  contentRaces(sqliteFolder, FULL)
})

describe('content stores on PostgreSQL', () => {
  const getFiles = contentRaces(make, FULL)

  describe('concurrent writers and collectors on several stores', () => {
    it('lose nothing acknowledged when connections break at any moment', async () => {
      const { faults, refusals } = await raceOfWriters(getFiles(), {
        operations: 300,
        stores: 3,
        background: randomEnds(getFiles())
      })
      expect(faults).toEqual([])
      expect(refusals.every((reason) => reason.startsWith('Storage unavailable'))).toBe(true)
    })
  })
})

describe('operations of 20 writers on 5 users and 6 contents', () => {
  let files: PostgresContents
  beforeEach(async () => {
    files = await make()
  })
  afterEach(() => files.remove())

  const countDeadlocks = async (): Promise<number> => {
    const [row] = await files.query('SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()')
    return Number(row?.deadlocks)
  }

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
