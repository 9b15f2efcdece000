import { memoryStore, type Store } from 'express-did-auth'
import { redisStore } from 'express-did-auth/stores/redis'
import { randomUUID } from 'node:crypto'
import { testRedis } from '../engines/redis-server.js'
import { postgresTables } from './postgres-stores.js'
import { sqliteFile } from './sqlite-stores.js'

/** Two stores with the same data, as two instances of a service use them. */
export interface SharedStores {
  stores: [Store, Store]
  remove: () => unknown
}

const openers: Record<string, () => SharedStores | Promise<SharedStores>> = {
  memory: () => {
    const store = memoryStore()
    return { stores: [store, store], remove: () => undefined }
  },
  SQLite: () => {
    const files = sqliteFile()
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

/** Names of all engines of stores. */
export const storeNames = Object.keys(openers)

/** Opens two stores that share their data. The caller closes both, then calls `remove`. */
export async function openSharedStores(name: string): Promise<SharedStores> {
  return openers[name]!()
}
