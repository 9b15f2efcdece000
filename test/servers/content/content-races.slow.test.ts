import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { failingObjects, raceOfWriters, randomEnds } from '../../support/models/content-race.js'
import { usePostgresContents, type PostgresContents } from '../../support/servers/postgres-contents.js'
import { scaled } from '../../support/fixtures/time-factor.js'

const OPERATIONS = Number(process.env.RACE_OPERATIONS ?? 100_000)
const MAX_SECONDS = 180

jest.setTimeout(scaled(3 * MAX_SECONDS * 1_000))

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

describe(`${OPERATIONS} operations of 20 writers on 5 users and 6 contents, within 3 minutes`, () => {
  it('lose nothing, leave nothing behind, and cause no deadlock', async () => {
    const race = { operations: OPERATIONS, maxSeconds: MAX_SECONDS, stores: 4 }
    const { faults, refusals, operations } = await raceOfWriters(files, race)
    expect({ faults, refusals, deadlocks: await countDeadlocks() }).toEqual({ faults: [], refusals: [], deadlocks: 0 })
    process.stdout.write(`race: ${operations} operations, repeated ${JSON.stringify(files.retries())}\n`)
  })

  it('lose nothing acknowledged while objects fail and connections break', async () => {
    const race = { operations: OPERATIONS / 10, maxSeconds: MAX_SECONDS / 3, stores: 4 }
    const { faults, refusals, operations } = await raceOfWriters(files, {
      ...race,
      objects: failingObjects(),
      background: randomEnds(files)
    })
    expect({ faults, deadlocks: await countDeadlocks() }).toEqual({ faults: [], deadlocks: 0 })
    process.stdout.write(`race with faults: ${operations} operations, ${refusals.length} refused\n`)
  })
})
