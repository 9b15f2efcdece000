import { afterAll, beforeAll, describe, it } from '@jest/globals'
import { storeContract } from '../../src/testing/index.js'
import { postgresTables, type PostgresTables } from '../support/postgres-stores.js'

let tables: PostgresTables

beforeAll(async () => {
  tables = await postgresTables()
})

afterAll(() => tables.drop())

describe.each([true, false])('the Store contract on two PostgreSQL stores on one database, prepared: %s', (prepare) => {
  const onDatabase = storeContract((bounds) => ({
    // Sweeps run beside the verbs, so that here they have to be as careful as in use.
    store: tables.store({ ...bounds, prepare }, {}),
    another: tables.store({ ...bounds, prepare }, {}),
    remove: () => tables.clear()
  }))
  for (const { name, run } of onDatabase) it(name, run)
})
