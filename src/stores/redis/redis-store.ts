import type { Logger, Store } from '../../ports.js'
import { combineStores } from '../combine.js'
import { SweepClock } from '../sweep-clock.js'
import { findDurabilityWarning } from './durability.js'
import { RedisChallengeUses } from './redis-challenge-uses.js'
import { RedisConnection, type Send } from './redis-connection.js'
import { RedisKeys } from './redis-keys.js'
import { RedisQuotas } from './redis-quotas.js'
import { RedisSessions, userTagOf } from './redis-sessions.js'
import { parseRedisUrl, type RedisSource } from './redis-source.js'
import { ReplicatedWrites } from './replicated-writes.js'

/** How a Redis store works. */
export interface RedisStoreOptions {
  /** What its keys begin with. Default: `eda:`. */
  keyPrefix?: string
  /**
   * Replicas that must have a session or a use of a challenge before it is acknowledged; where they do not have it within
   * 1 s the call is rejected. Needs the URL of one Redis. Default: 0.
   */
  waitReplicas?: number
  /** Receives a warning when Redis may lose what it acknowledged. Default: a process warning, once. */
  logger?: Pick<Logger, 'warn'>
}

/**
 * Sessions, uses of challenges and quotas in one Redis.
 *
 * @param tagOf - the tag that the session ids of a user begin with; for tests, whose ids are made up
 * @param clock - for tests, whose clocks jump
 */
export function openRedisStore(
  source: RedisSource,
  options: RedisStoreOptions = {},
  tagOf = userTagOf,
  clock = new SweepClock()
): Store {
  const { keyPrefix, waitReplicas = 0, logger } = options
  if (waitReplicas > 0 && (typeof source !== 'string' || parseRedisUrl(source).hosts.length > 1)) {
    throw new TypeError('express-did-auth: waitReplicas needs the URL of one Redis, because WAIT is of one connection')
  }
  const warn = warnOnce(logger)
  const connection = new RedisConnection(source, async (send: Send) => {
    const warning = await findDurabilityWarning(send, waitReplicas)
    if (warning !== undefined) warn(warning)
  })
  const keys = new RedisKeys(keyPrefix)
  const writes = new ReplicatedWrites(connection, waitReplicas)
  // WAIT stops its connection, and no request has to wait for the replicas because of another user's login.
  const quotaConnection = waitReplicas > 0 ? new RedisConnection(source) : connection
  return combineStores({
    sessions: new RedisSessions({ connection, writes, keys, tagOf, clock }),
    challengeUses: new RedisChallengeUses(connection, writes, keys),
    quotas: new RedisQuotas(quotaConnection, keys)
  })
}

function warnOnce(logger: RedisStoreOptions['logger']): (message: string) => void {
  let hasWarned = false
  return (message) => {
    if (hasWarned) return
    hasWarned = true
    if (logger === undefined) process.emitWarning(`express-did-auth: ${message}`)
    else logger.warn({ event: 'redis-durability' }, message)
  }
}
