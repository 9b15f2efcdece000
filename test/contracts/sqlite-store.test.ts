import { describe, it } from '@jest/globals'
import { storeContract } from '../../src/testing/index.js'
import { engines, sqliteFile } from '../support/sqlite-stores.js'

describe.each(engines)('the Store contract on two SQLite stores on one file, by %s', (engine) => {
  const onFile = storeContract((bounds) => {
    const files = sqliteFile(engine)
    return { store: files.store(bounds), another: files.store(bounds), remove: () => files.remove() }
  })
  for (const { name, run } of onFile) it(name, run)
})
