import { afterAll, beforeAll, describe, it } from '@jest/globals'
import { combineStores } from '../../src/stores/combine.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { storeContract } from '../../src/testing/index.js'
import { postgresTables, type PostgresTables } from '../support/servers/postgres-stores.js'
import { assertLikeMemory } from '../support/models/store-comparison.js'
import { engines, sqliteFile } from '../support/servers/sqlite-stores.js'

describe('the Store contract on the memory store', () => {
  for (const { name, run } of storeContract((bounds) => memoryStore(bounds))) it(name, run)
})

describe.each(engines)('the Store contract on two SQLite stores on one file, by %s', (engine) => {
  const contract = storeContract((bounds) => {
    const files = sqliteFile(engine)
    const [store, other] = [files.store(bounds), files.store(bounds)]
    // Quotas are in memory. Both stores use the memory of one store object.
    const another = combineStores({ sessions: other, challengeUses: other, quotas: store })
    return { store, another, remove: () => files.remove() }
  })
  for (const { name, run } of contract) it(name, run)

  it('and a memory store return the same for every sequence', async () => {
    const files = sqliteFile(engine)
    await assertLikeMemory(files.store({}, {}), 30).finally(() => files.remove())
  })
})

describe('the Store contract on two PostgreSQL stores on one database', () => {
  let tables: PostgresTables
  beforeAll(async () => {
    tables = await postgresTables()
  })
  afterAll(() => tables.drop())

  const contract = storeContract((bounds) => ({
    // Sweeps run concurrently with the verbs, as in production.
    store: tables.store(bounds, {}),
    another: tables.store(bounds, {}),
    remove: () => tables.clear()
  }))
  for (const { name, run } of contract) it(name, run)
})
