import type { Logger, QuotaStore, Store, StoreLifecycle } from '../../ports.js'
import { SweepClock } from '../sweep-clock.js'
import { createRedisChallengeUses } from './redis-challenge-uses.js'
import { RedisConnection } from './redis-connection.js'
import { createRedisQuotas } from './redis-quotas.js'
import { toUserTag } from './redis-keys.js'
import { createRedisSessions } from './redis-sessions.js'
import { findDurabilityWarning, isCluster, type RedisSource } from './redis-source.js'

/** Options of {@link redisQuotas}. */
export interface RedisQuotasOptions {
  /** Prefix of all keys. Default: `eda:`. */
  keyPrefix?: string
  /** CA certificates that verify the server's certificate, as PEM text, with a URL `rediss://`. */
  ca?: string
}

/** Options of {@link redisStore}. */
export interface RedisStoreOptions extends RedisQuotasOptions {
  /**
   * Number of replicas that must receive each write within 1 s; otherwise the call is rejected. Needs the URL of one
   * Redis. Default: 0.
   */
  waitReplicas?: number
  /** Receives a warning, once, if Redis may lose acknowledged writes. Default: a process warning. */
  logger?: Pick<Logger, 'warn'>
}

/**
 * Creates quotas in Redis or Valkey, for any number of instances. Needs the package `redis` unless a client is passed
 * in. If Redis loses its data, counting restarts at 0. If Redis is unavailable, a charge is rejected within 4 s.
 *
 * @throws TypeError if `source` is neither a URL nor a client; Error if the package `redis` is not installed
 * @example
 * const durable = sqliteStore('./auth.db')
 * const quotas = redisQuotas('redis://localhost:6379')
 * setupDidAuth(app, { ...config, store: combineStores({ sessions: durable, challengeUses: durable, quotas }) })
 */
export function redisQuotas(source: RedisSource, options: RedisQuotasOptions = {}): QuotaStore & StoreLifecycle {
  const redis = new RedisConnection(source, options)
  return { ...createRedisQuotas(redis), ping: () => redis.ping(), close: () => redis.close() }
}

/**
 * Creates a store in Redis or Valkey, for any number of instances. Needs the package `redis` unless a client is passed
 * in.
 *
 * **Redis replicates asynchronously: a failover can lose acknowledged writes.** Then a logout is undone, and a replaced
 * refresh token or a used challenge is valid again. The store warns of this unless `appendfsync` is `always`, or
 * `waitReplicas` and `min-replicas-to-write` are at least 1, which makes such losses rare. If you cannot accept them,
 * store sessions and challenge uses in a durable store, and quotas in {@link redisQuotas}.
 *
 * A cluster records no ended sessions: the store then lacks `listEndedSessions`.
 *
 * A full Redis (`maxmemory`) refuses new sessions. Unless `maxmemory-policy` is `noeviction`, each call is rejected.
 *
 * @throws TypeError if `source` is neither a URL nor a client; Error if the package `redis` is not installed
 * @example
 * setupDidAuth(app, { ...config, store: redisStore('rediss://user:password@redis.example:6379', { waitReplicas: 1 }) })
 */
export function redisStore(source: RedisSource, options?: RedisStoreOptions): Store {
  return openRedisStore(source, options)
}

/** Creates the store of {@link redisStore}. Tests pass other session tags and clocks. */
export function openRedisStore(
  source: RedisSource,
  options: RedisStoreOptions = {},
  toTag = toUserTag,
  clock = new SweepClock()
): Store {
  const { keyPrefix, waitReplicas = 0, ca, logger } = options
  if (waitReplicas > 0 && (typeof source !== 'string' || isCluster(source))) {
    throw new TypeError(
      'express-did-auth: waitReplicas needs the URL of one Redis, because WAIT covers only one connection'
    )
  }
  let hasWarned = false
  const durable = new RedisConnection(source, {
    keyPrefix,
    ca,
    waitReplicas,
    async onConnect(send) {
      const warning = await findDurabilityWarning(send, waitReplicas)
      if (warning === undefined || hasWarned) return
      hasWarned = true
      if (logger === undefined) process.emitWarning(`express-did-auth: ${warning}`)
      else logger.warn({ event: 'redis-durability' }, warning)
    }
  })
  // WAIT blocks its connection. Quotas use another one, so that requests do not wait for the writes of other users.
  const unblocked = waitReplicas > 0 ? new RedisConnection(source, { keyPrefix, ca }) : durable
  return {
    ...createRedisSessions(durable, toTag, clock, !isCluster(source)),
    ...createRedisChallengeUses(durable),
    ...createRedisQuotas(unblocked),
    async ping() {
      await Promise.all([...new Set([durable, unblocked])].map((connection) => connection.ping()))
    },
    async close() {
      await Promise.all([durable.close(), unblocked.close()])
    }
  }
}
