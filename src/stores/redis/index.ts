import type { QuotaStore, Store, StoreLifecycle } from '../../ports.js'
import { RedisConnection } from './redis-connection.js'
import { quotasOn } from './redis-quotas.js'
import type { RedisSource } from './redis-source.js'
import { openRedisStore, type RedisQuotasOptions, type RedisStoreOptions } from './redis-store.js'

/**
 * Quotas in Redis or Valkey, for any number of instances: one script a charge. Needs the package `redis` unless a client is
 * passed in.
 *
 * Losing them counts again from 0. A Redis that is unavailable rejects the charge within 4 s.
 *
 * @throws TypeError when `source` is neither a URL nor a client; Error when the package `redis` is not installed
 * @example
 * ```ts
 * const durable = sqliteStore('./auth.db')
 * const quotas = redisQuotas('redis://localhost:6379')
 * setupDidAuth(app, { ...config, store: combineStores({ sessions: durable, challengeUses: durable, quotas }) })
 * ```
 */
export function redisQuotas(source: RedisSource, options: RedisQuotasOptions = {}): QuotaStore & StoreLifecycle {
  const redis = new RedisConnection(source, options)
  return { ...quotasOn(redis), ping: () => redis.ping(), close: () => redis.close() }
}

/**
 * A whole store in Redis or Valkey, for any number of instances. Needs the package `redis` unless a client is passed in.
 *
 * **Redis replicates asynchronously: a failover can lose what was acknowledged.** Then a logout is undone, a refresh token
 * that was replaced is good again, and a used challenge is good once more. The store warns of it, unless `appendfsync` is
 * `always`, or `waitReplicas` and `min-replicas-to-write` are at least 1, which makes it rare. Keep sessions and challenge
 * uses in a durable store, and quotas in {@link redisQuotas}, where that matters.
 *
 * The bound of the store is Redis's `maxmemory`: a full Redis refuses new sessions. `maxmemory-policy` has to be
 * `noeviction`, else each call is rejected.
 *
 * @throws TypeError when `source` is neither a URL nor a client; Error when the package `redis` is not installed
 * @example
 * ```ts
 * setupDidAuth(app, { ...config, store: redisStore('rediss://user:password@redis.example:6379', { waitReplicas: 1 }) })
 * ```
 */
export function redisStore(source: RedisSource, options?: RedisStoreOptions): Store {
  return openRedisStore(source, options)
}

export type { RedisClient, RedisCluster, RedisSource } from './redis-source.js'
export type { RedisQuotasOptions, RedisStoreOptions } from './redis-store.js'
export type { Logger } from '../../ports.js'
export type * from '../port-types.js'
