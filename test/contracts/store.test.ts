import { describe, it } from '@jest/globals'
import { combineStores } from '../../src/stores/combine.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { storeContract } from '../../src/testing/index.js'

describe('the Store contract on the memory store', () => {
  for (const { name, run } of storeContract((bounds) => memoryStore(bounds))) it(name, run)
})

describe('the Store contract on a store combined of three', () => {
  const combined = storeContract((bounds) => {
    const parts = { sessions: memoryStore(bounds), challengeUses: memoryStore(bounds), quotas: memoryStore(bounds) }
    return { store: combineStores(parts), another: combineStores(parts) }
  })
  for (const { name, run } of combined) it(name, run)
})
