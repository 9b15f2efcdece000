import { afterAll, beforeAll, describe, it } from '@jest/globals'
import { randomUUID } from 'node:crypto'
import { storeContract } from '../../src/testing/index.js'
import { suiteStore, testRedis, type TestRedis } from '../support/engines/redis-server.js'

let redis: Pick<TestRedis, 'url' | 'stop'>
beforeAll(async () => {
  redis = await testRedis()
})
afterAll(() => redis.stop())

describe('the Store contract on two Redis stores on one Redis', () => {
  // The store has no limit of its own: the memory of Redis is the limit.
  const contract = storeContract(() => {
    const keyPrefix = `test ${randomUUID()} `
    return { store: suiteStore(redis.url, { keyPrefix }), another: suiteStore(redis.url, { keyPrefix }) }
  })
  for (const { name, run } of contract) it(name, run)
})
