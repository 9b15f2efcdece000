import { describe, it } from '@jest/globals'
import { MemoryStore } from 'express-did-auth'
import { sqliteStore } from 'express-did-auth/stores/sqlite'
import { storeContract } from 'express-did-auth/testing'
import { temporaryFolder } from '../support/store-folder.js'

describe('the Store contract on the memory store', () => {
  for (const { name, run } of storeContract((bounds) => new MemoryStore(bounds))) it(name, run)
})

describe('the Store contract on two SQLite stores on one file', () => {
  const onFile = storeContract((bounds) => {
    const { path, remove } = temporaryFolder()
    const file = `${path}/auth.db`
    return { store: sqliteStore(file, bounds), another: sqliteStore(file, bounds), remove }
  })
  for (const { name, run } of onFile) it(name, run)
})
