import { afterAll, beforeAll, describe, it } from '@jest/globals'
import { storeContract } from '../../src/testing/index.js'
import { postgresTables, type PostgresTables } from '../support/servers/postgres-stores.js'

describe('the Store contract on two PostgreSQL stores without prepared statements', () => {
  let tables: PostgresTables
  beforeAll(async () => {
    tables = await postgresTables()
  })
  afterAll(() => tables.drop())

  const contract = storeContract((bounds) => ({
    store: tables.store({ ...bounds, prepare: false }, {}),
    another: tables.store({ ...bounds, prepare: false }, {}),
    remove: () => tables.clear()
  }))
  for (const { name, run } of contract) it(name, run)
})
