import { afterAll, beforeAll, describe, it } from '@jest/globals'
import { randomUUID } from 'node:crypto'
import { combineStores } from '../../src/stores/combine.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { redisQuotas } from '../../src/stores/redis/index.js'
import { storeContract } from '../../src/testing/index.js'
import { testRedis, type TestRedis } from '../support/redis-server.js'
import { suiteStore } from '../support/redis-stores.js'

let redis: Pick<TestRedis, 'url' | 'stop'>
beforeAll(async () => {
  redis = await testRedis()
})
afterAll(() => redis.stop())

describe('the Store contract on two Redis stores on one Redis', () => {
  // Redis itself is the bound.
  const contract = storeContract(() => {
    const keyPrefix = `test ${randomUUID()} `
    return { store: suiteStore(redis.url, { keyPrefix }), another: suiteStore(redis.url, { keyPrefix }) }
  })
  for (const { name, run } of contract) it(name, run)
})

describe('the Store contract on a memory store with quotas in Redis', () => {
  const contract = storeContract((bounds) => {
    const keyPrefix = `test ${randomUUID()} `
    const memory = memoryStore(bounds)
    const withQuotas = () =>
      combineStores({ sessions: memory, challengeUses: memory, quotas: redisQuotas(redis.url, { keyPrefix }) })
    return { store: withQuotas(), another: withQuotas() }
  })
  for (const { name, run } of contract) it(name, run)
})
