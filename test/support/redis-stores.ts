import type { Store } from '../../src/ports.js'
import type { RedisSource } from '../../src/stores/redis/index.js'
import { openRedisStore, type RedisStoreOptions } from '../../src/stores/redis/redis-store.js'

/**
 * A Redis store for the session ids of the contract suite, which are made up: they all begin with the same 8 characters,
 * so that all users of a service share one key, as two whose tags are equal do.
 */
export function suiteStore(source: RedisSource, options: RedisStoreOptions = {}, tag = 'session-'): Store {
  const logger = { warn: () => undefined }
  return openRedisStore(source, { logger, ...options }, () => tag)
}
