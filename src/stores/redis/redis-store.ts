import type { Logger, QuotaStore, Store, StoreLifecycle } from '../../ports.js'
import { SweepClock } from '../sweep-clock.js'
import { createRedisChallengeUses } from './redis-challenge-uses.js'
import { RedisConnection } from './redis-connection.js'
import { createQuotas } from './redis-quotas.js'
import { toUserTag } from './redis-keys.js'
import { createRedisSessions } from './redis-sessions.js'
import { findDurabilityWarning, parseRedisUrl, type RedisSource } from './redis-source.js'

/** Options of quotas in Redis. */
export interface RedisQuotasOptions {
  /** Prefix of all keys. Default: `eda:`. */
  keyPrefix?: string
}

/** Options of a Redis store. */
export interface RedisStoreOptions extends RedisQuotasOptions {
  /** Replicas that must have a write within 1 s, else the call is rejected. Needs the URL of one Redis. Default: 0. */
  waitReplicas?: number
  /** Receives a warning when Redis may lose what it acknowledged. Default: a process warning, once. */
  logger?: Pick<Logger, 'warn'>
}

/**
 * Quotas in Redis or Valkey, for any number of instances. Needs the package `redis` unless a client is passed in.
 * Losing them counts again from 0. A Redis that is unavailable rejects the charge within 4 s.
 *
 * @throws TypeError when `source` is neither a URL nor a client; Error when the package `redis` is not installed
 * @example
 * const durable = sqliteStore('./auth.db')
 * const quotas = redisQuotas('redis://localhost:6379')
 * setupDidAuth(app, { ...config, store: combineStores({ sessions: durable, challengeUses: durable, quotas }) })
 */
export function redisQuotas(source: RedisSource, options: RedisQuotasOptions = {}): QuotaStore & StoreLifecycle {
  const redis = new RedisConnection(source, options)
  return { ...createQuotas(redis), ping: () => redis.ping(), close: () => redis.close() }
}

/**
 * A whole store in Redis or Valkey, for any number of instances. Needs the package `redis` unless a client is given.
 *
 * **Redis replicates asynchronously: a failover can lose acknowledged writes.** Then a logout is undone, and a replaced
 * refresh token or a used challenge is valid again. The store warns of it, unless `appendfsync` is `always`, or
 * `waitReplicas` and `min-replicas-to-write` are at least 1, which makes it rare. If that matters, store sessions and
 * challenge uses in a durable store, and quotas in {@link redisQuotas}.
 *
 * A full Redis (`maxmemory`) refuses new sessions. Unless `maxmemory-policy` is `noeviction`, each call is rejected.
 *
 * @throws TypeError when `source` is neither a URL nor a client; Error when the package `redis` is not installed
 * @example
 * setupDidAuth(app, { ...config, store: redisStore('rediss://user:password@redis.example:6379', { waitReplicas: 1 }) })
 */
export function redisStore(source: RedisSource, options?: RedisStoreOptions): Store {
  return openRedisStore(source, options)
}

/** Opens the store of {@link redisStore}; tests pass their own tags of session ids, and clocks that jump. */
export function openRedisStore(
  source: RedisSource,
  options: RedisStoreOptions = {},
  tagOf = toUserTag,
  clock = new SweepClock()
): Store {
  const { keyPrefix, waitReplicas = 0, logger } = options
  if (waitReplicas > 0 && (typeof source !== 'string' || parseRedisUrl(source).hosts.length > 1)) {
    throw new TypeError('express-did-auth: waitReplicas needs the URL of one Redis, because WAIT is of one connection')
  }
  let hasWarned = false
  const durable = new RedisConnection(source, {
    keyPrefix,
    waitReplicas,
    async onConnect(send) {
      const warning = await findDurabilityWarning(send, waitReplicas)
      if (warning === undefined || hasWarned) return
      hasWarned = true
      if (logger === undefined) process.emitWarning(`express-did-auth: ${warning}`)
      else logger.warn({ event: 'redis-durability' }, warning)
    }
  })
  // WAIT stops its connection, and no request has to wait for the replicas because of another user's login.
  const quick = waitReplicas > 0 ? new RedisConnection(source, { keyPrefix }) : durable
  return {
    ...createRedisSessions(durable, tagOf, clock),
    ...createRedisChallengeUses(durable),
    ...createQuotas(quick),
    async ping() {
      await Promise.all([...new Set([durable, quick])].map((one) => one.ping()))
    },
    async close() {
      await Promise.all([durable.close(), quick.close()])
    }
  }
}
