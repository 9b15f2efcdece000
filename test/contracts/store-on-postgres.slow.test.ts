import { afterAll, beforeAll, describe, it } from '@jest/globals'
import { storeContract } from '../../src/testing/index.js'
import { postgresTables, type PostgresTables } from '../support/servers/postgres-stores.js'

describe.each([
  ['on one database', {}],
  ['without prepared statements', { prepare: false }]
])('the Store contract on two PostgreSQL stores %s', (_what, options) => {
  let tables: PostgresTables
  beforeAll(async () => {
    tables = await postgresTables()
  })
  afterAll(() => tables.drop())

  const contract = storeContract((bounds) => ({
    // Sweeps run concurrently with the verbs, as in production.
    store: tables.store({ ...bounds, ...options }, {}),
    another: tables.store({ ...bounds, ...options }, {}),
    remove: () => tables.clear()
  }))
  for (const { name, run } of contract) it(name, run)
})
