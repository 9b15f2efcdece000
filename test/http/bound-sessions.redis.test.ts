import { describe, expect, it } from '@jest/globals'
import { memoryStore, type Store } from 'express-did-auth'
import { redisStore } from 'express-did-auth/stores/redis'
import { randomUUID } from 'node:crypto'
import { testRedis } from '../support/engines/redis-server.js'
import { createDevice } from '../support/fixtures/device.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'
import { postgresTables } from '../support/servers/postgres-stores.js'
import { sqliteFile } from '../support/servers/sqlite-stores.js'
import { resourceKey, serviceUrl, testApp } from '../support/servers/test-app.js'

/** Two stores with the same data, as two instances of a service use them. */
interface SharedStores {
  stores: [Store, Store]
  remove: () => unknown
}

const openers: Record<string, () => SharedStores | Promise<SharedStores>> = {
  memory: () => {
    const store = memoryStore()
    return { stores: [store, store], remove: () => undefined }
  },
  SQLite: () => {
    const files = sqliteFile('better-sqlite3')
    return { stores: [files.store({}), files.store({})], remove: () => files.remove() }
  },
  PostgreSQL: async () => {
    const tables = await postgresTables()
    return { stores: [tables.store({}, {}), tables.store({}, {})], remove: () => tables.drop() }
  },
  Redis: async () => {
    const redis = await testRedis()
    const logger = { warn: () => undefined }
    const keyPrefix = `test ${randomUUID()} `
    return {
      stores: [redisStore(redis.url, { keyPrefix, logger }), redisStore(redis.url, { keyPrefix, logger })],
      remove: () => redis.stop()
    }
  }
}

const wallet = createNumberedWallet(1)
const [owner, thief] = [createDevice(resourceKey(1)), createDevice(resourceKey(2))]

describe.each(Object.keys(openers))('a bound session in two instances on %s', (name) => {
  it('is refreshed by its device only, once, however often a copy of its token is used at the same time', async () => {
    const { stores, remove } = await openers[name]!()
    try {
      const config = { deviceBinding: 'accepted', maxRequestsPerTimeSlot: Infinity } as const
      const instances = await Promise.all(stores.map((store) => testApp({ ...config, store })))
      const [first, second] = instances as [(typeof instances)[0], (typeof instances)[0]]
      const { headers } = await first.post('/request-auth', { did: wallet.did }).expect(200)
      const prove = (path: string, device = owner) => ({
        Accept: 'application/problem+json',
        DPoP: device.prove({ url: serviceUrl + path, nonce: String(headers['dpop-nonce']) })
      })
      const { body } = await first.post('/auth', await first.createSignedLogin(), prove('/auth')).expect(200)
      const answers = await Promise.all(
        Array.from({ length: 20 }, async (_, index) => {
          const device = index % 4 < 2 ? thief : owner
          const instance = instances[index % 2]!
          const answer = await instance.refresh(body.refreshToken, prove('/refresh-token', device))
          return { isThief: device === thief, status: answer.status, body: answer.body }
        })
      )
      const stolen = answers.filter(({ isThief }) => isThief).map(({ body: { code } }) => code)
      expect(stolen).toEqual(Array(10).fill('ERR_DEVICE_PROOF'))
      const winners = answers.filter(({ status }) => status === 200)
      expect(winners.map(({ isThief }) => isThief)).toEqual([false])
      await second.refresh(winners[0]!.body.refreshToken, prove('/refresh-token')).expect(200)
    } finally {
      await Promise.all(stores.map((store) => store.close()))
      await remove()
    }
  })
})
