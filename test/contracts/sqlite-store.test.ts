import { describe, it } from '@jest/globals'
import { combineStores } from '../../src/stores/combine.js'
import { storeContract } from '../../src/testing/index.js'
import { engines, sqliteFile } from '../support/sqlite-stores.js'

describe.each(engines)('the Store contract on two SQLite stores on one file, by %s', (engine) => {
  const onFile = storeContract((bounds) => {
    const files = sqliteFile(engine)
    const [store, other] = [files.store(bounds), files.store(bounds)]
    // Quotas lie in memory, and here in that of one store object.
    const another = combineStores({ sessions: other, challengeUses: other, quotas: store })
    return { store, another, remove: () => files.remove() }
  })
  for (const { name, run } of onFile) it(name, run)
})
