import type { Store } from 'express-did-auth'
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

/** Opens two stores that share their data. The caller closes both, then calls `remove`. */
export type OpenSharedStores = () => SharedStores | Promise<SharedStores>

/** Engines that several processes can share. */
export const sharedStores: Record<string, OpenSharedStores> = {
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
