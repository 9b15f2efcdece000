import { describe, expect, it } from '@jest/globals'
import type { Store } from '../../src/ports.js'
import { redisQuotas } from '../../src/stores/redis/index.js'
import type { RedisStoreOptions } from '../../src/stores/redis/redis-store.js'
import {
  createCharge,
  did,
  createRotation,
  service,
  createSession,
  START_SECONDS,
  createUse
} from '../../src/testing/store-case.js'
import { startRedis, suiteStore, type TestRedis } from '../support/engines/redis-server.js'
import { until } from '../support/fixtures/until.js'
import { afterTest } from '../support/fixtures/after-test.js'

async function server(...settings: string[]): Promise<TestRedis> {
  const redis = await startRedis(settings)
  afterTest(() => redis.stop())
  return redis
}

function opening<T extends { close(): Promise<void> }>(store: T): T {
  afterTest(() => store.close())
  return store
}

/** Creates a store, and records its warnings. */
function storeOn(url: string, options: RedisStoreOptions = {}): { store: Store; warnings: string[] } {
  const warnings: string[] = []
  const logger = { warn: (_fields: object, message: string) => void warnings.push(message) }
  return { store: opening(suiteStore(url, { logger, ...options })), warnings }
}

const ready = (store: { ping(): Promise<void> }): Promise<boolean> => store.ping().then(
  () => true,
  () => false
) // prettier-ignore

describe('quotas in a failing Redis', () => {
  it('are rejected while it is unavailable, and restart at 0 after it lost its data', async () => {
    const redis = await server()
    const quotas = opening(redisQuotas(redis.url))
    for (const count of [1, 2]) expect(await quotas.chargeQuota(createCharge())).toMatchObject({ count })
    await redis.kill()
    for (let charge = 0; charge < 3; charge += 1) await expect(quotas.chargeQuota(createCharge())).rejects.toThrow()
    await redis.start()
    await until(() => ready(quotas))
    // Redis has lost the scripts too.
    expect(await quotas.chargeQuota(createCharge())).toMatchObject({ count: 1, isCharged: true })
  })

  it('are rejected until Redis starts, and counted afterwards', async () => {
    const redis = await server()
    await redis.kill()
    const quotas = opening(redisQuotas(redis.url))
    await expect(quotas.chargeQuota(createCharge())).rejects.toThrow('ECONNREFUSED')
    await redis.start()
    await until(() => ready(quotas))
    expect(await quotas.chargeQuota(createCharge())).toMatchObject({ count: 1 })
  })

  it('are rejected while Redis does not respond, connected or connecting, and counted afterwards', async () => {
    const redis = await server()
    const [connected, connecting] = [opening(redisQuotas(redis.url)), opening(redisQuotas(redis.url))]
    await connected.ping()
    redis.pause()
    const charges = [connected, connected, connecting].map((quotas) => quotas.chargeQuota(createCharge()))
    for (const charge of charges) await expect(charge).rejects.toThrow('Redis did not answer within 3500 ms')
    redis.resume()
    await until(() => ready(connected))
    await until(() => ready(connecting))
    const { count } = await connected.chargeQuota(createCharge())
    // Redis may have counted earlier charges when it continued, at most once each.
    expect([1, 2, 3]).toContain(count)
    expect(await connecting.chargeQuota(createCharge())).toMatchObject({ count: count + 1 })
  })

  it('are rejected immediately if 10,000 are queued', async () => {
    const redis = await server()
    const quotas = opening(redisQuotas(redis.url))
    await quotas.ping()
    redis.pause()
    const waiting = Array.from({ length: 10_000 }, () => quotas.chargeQuota(createCharge()))
    await expect(quotas.chargeQuota(createCharge())).rejects.toThrow('10000 calls wait for Redis')
    redis.resume()
    // The number of calls that Redis answers in time varies, but each of them gets a different count.
    const outcomes = await Promise.allSettled(waiting)
    const counts = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value.count] : []))
    expect(new Set(counts).size).toBe(counts.length)
    await until(() => ready(quotas))
  })

  it('are rejected with a wrong password, and counted with the right one', async () => {
    const redis = await server('--requirepass', 'right')
    const address = redis.url.slice('redis://'.length)
    await expect(opening(redisQuotas(`redis://:wrong@${address}`)).chargeQuota(createCharge())).rejects.toThrow(
      'WRONGPASS'
    )
    await expect(opening(redisQuotas(redis.url)).chargeQuota(createCharge())).rejects.toThrow('NOAUTH')
    expect(await opening(redisQuotas(`redis://:right@${address}`)).chargeQuota(createCharge())).toMatchObject({
      count: 1
    })
  })

  it('are rejected by a closed store', async () => {
    const redis = await server()
    const quotas = redisQuotas(redis.url)
    await quotas.ping()
    await quotas.close()
    await quotas.close()
    await expect(quotas.chargeQuota(createCharge())).rejects.toThrow('the Redis store is closed')
  })
})

describe('a full Redis', () => {
  it('is not ready, although it responds to PING', async () => {
    const redis = await server()
    const quotas = opening(redisQuotas(redis.url))
    await quotas.ping()
    await redis.command('CONFIG', 'SET', 'maxmemory', '1')
    await expect(quotas.ping()).rejects.toThrow('OOM')
    expect(await redis.command('PING')).toBe('PONG')
  })

  it('refuses new sessions, uses and quotas, and lets users who are logged in refresh and log out', async () => {
    const redis = await server()
    const { store } = storeOn(redis.url)
    for (const name of ['a', 'b', 'c']) await store.createSession(createSession(name))
    await store.consumeChallenge(createUse())
    await redis.command('CONFIG', 'SET', 'maxmemory', '1')
    await expect(store.createSession(createSession('d'))).rejects.toThrow('OOM')
    await expect(store.consumeChallenge(createUse({ useCount: 1 }))).rejects.toThrow('OOM')
    await expect(store.chargeQuota(createCharge())).rejects.toThrow('OOM')
    expect(await store.rotateRefreshToken(createRotation('a', 0, 1))).toBe('rotate')
    expect(await store.endSession(service, 'session-b', 'loggedOut', START_SECONDS, START_SECONDS + 660)).toBe(true)
    expect(await store.countChallengeUses(createUse())).toEqual({ logIn: 1, signUp: 0 })
    expect(await store.listSessions(service, did, START_SECONDS)).toHaveLength(2)
    expect(await store.revokeSessions(service, did, START_SECONDS, START_SECONDS + 660)).toBe(2)
    expect(await store.revokeSessions(service, did, START_SECONDS, START_SECONDS + 660)).toBe(0)
    expect(await store.listEndedSessions!(service, 0, 9)).toHaveLength(3)
    await redis.command('CONFIG', 'SET', 'maxmemory', '0')
    expect(await store.createSession(createSession('d'))).toBe(0)
    expect(await store.consumeChallenge(createUse({ useCount: 1 }))).toBe('consumed')
  })
})

describe('the settings of a Redis for sessions', () => {
  const durable = ['--appendonly', 'yes', '--appendfsync', 'always']
  const losses = expect.stringContaining('Redis may lose acknowledged logouts, refreshes and used challenges')

  it.each([
    ['nothing is synced', [], [losses]],
    ['each second is synced', ['--appendonly', 'yes'], [losses]],
    ['each write is synced', durable, []],
    ['the settings cannot be read', [...durable, '--rename-command', 'CONFIG', ''], [expect.stringContaining('refuses CONFIG GET')]] // prettier-ignore
  ])('cause one warning: %s', async (_what, settings, expected) => {
    const redis = await server(...settings)
    const { store, warnings } = storeOn(redis.url)
    await store.ping()
    await redis.kill()
    await redis.start()
    await until(() => ready(store))
    expect(warnings).toEqual(expected)
  })

  it('cause a warning if the Redis user may not read them', async () => {
    const redis = await server(...durable)
    await redis.command('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '+@all', '-config')
    const { store, warnings } = storeOn(redis.url.replace('//', '//app:secret@'))
    await store.createSession(createSession('a'))
    expect(warnings).toEqual([expect.stringContaining('refuses CONFIG GET')])
  })

  it('cause an error if Redis may evict sessions, until they are fixed', async () => {
    const redis = await server(...durable, '--maxmemory-policy', 'allkeys-lru')
    const { store } = storeOn(redis.url)
    const reason = 'sessions need a Redis with maxmemory-policy noeviction: allkeys-lru may evict them'
    await expect(store.ping()).rejects.toThrow(reason)
    await expect(store.createSession(createSession('a'))).rejects.toThrow(reason)
    await redis.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
    await until(() => ready(store))
    expect(await store.createSession(createSession('a'))).toBe(0)
  })

  it('cause rejected writes if too few replicas have them; a retry reports the stored result', async () => {
    const primary = await server('--repl-diskless-sync-delay', '0', '--min-replicas-to-write', '0')
    const { store } = storeOn(primary.url, { waitReplicas: 1 })
    const shortfall = 'NOREPLICAS 0 of 1 replicas have the write'
    await expect(store.createSession(createSession('a'))).rejects.toThrow(shortfall)
    await expect(store.rotateRefreshToken(createRotation('a', 0, 1))).rejects.toThrow(shortfall)
    await expect(store.endSession(service, 'session-b', 'revoked', START_SECONDS)).rejects.toThrow(shortfall)
    expect(await store.chargeQuota(createCharge())).toMatchObject({ count: 1 })
    await server('--replicaof', '127.0.0.1', String(primary.port))
    await until(async () => (await primary.command('WAIT', '1', '100')) === 1)
    expect(await store.rotateRefreshToken(createRotation('a', 0, 1))).toBe('repeated')
  })
})
