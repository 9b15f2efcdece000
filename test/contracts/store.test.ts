import { describe, it } from '@jest/globals'
import { combineStores } from '../../src/stores/combine.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { storeContract } from '../../src/testing/index.js'
import { assertLikeMemory } from '../support/models/store-comparison.js'
import { engine, sqliteFile } from '../support/servers/sqlite-stores.js'

describe('the Store contract on the memory store', () => {
  for (const { name, run } of storeContract((bounds) => memoryStore(bounds))) it(name, run)
})

describe(`the Store contract on two SQLite stores on one file, by ${engine}`, () => {
  const contract = storeContract((bounds) => {
    const files = sqliteFile()
    const [store, other] = [files.store(bounds), files.store(bounds)]
    // Quotas are in memory. Both stores use the memory of one store object.
    const another = combineStores({ sessions: other, challengeUses: other, quotas: store })
    return { store, another, remove: () => files.remove() }
  })
  for (const { name, run } of contract) it(name, run)

  it('and a memory store return the same for every sequence', async () => {
    const files = sqliteFile()
    await assertLikeMemory(files.store({}, {}), 30).finally(() => files.remove())
  })
})
