import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import express from 'express'
import { randomUUID } from 'node:crypto'
import { createClient } from 'redis'
import { setupDidAuth, type Store } from '../../src/index.js'
import { redisQuotas, redisStore } from '../../src/stores/redis/index.js'
import { RedisConnection } from '../../src/stores/redis/redis-connection.js'
import { createRedisQuotas } from '../../src/stores/redis/redis-quotas.js'
import { toUserTag } from '../../src/stores/redis/redis-keys.js'
import { openRedisStore } from '../../src/stores/redis/redis-store.js'
import { SweepClock } from '../../src/stores/sweep-clock.js'
import { signedIn, testConfig, wallet } from '../../src/testing/index.js'
import {
  createCharge,
  did,
  createRotation,
  service,
  createSession,
  START_SECONDS,
  createUse
} from '../../src/testing/store-case.js'
import { suiteStore, testRedis, type TestRedis } from '../support/engines/redis-server.js'
import { assertLikeMemory } from '../support/models/store-comparison.js'

let redis: Pick<TestRedis, 'url' | 'command' | 'stop'>
beforeAll(async () => {
  redis = await testRedis()
})
afterAll(() => redis.stop())

const logger = { info: () => undefined, warn: () => undefined, error: () => undefined }
const newPrefix = (): string => `test ${randomUUID()} `
const listKeys = async (keyPrefix: string): Promise<string[]> =>
  ((await redis.command('KEYS', `${keyPrefix}*`)) as string[]).map((key) => key.slice(keyPrefix.length)).sort()

/** Runs a test with a store, and closes the store afterwards. */
async function using(store: Store, test: (store: Store) => Promise<void>): Promise<void> {
  await test(store).finally(() => store.close())
}

describe('redisStore', () => {
  it('returns the same results as a memory store for random sequences of calls', async () => {
    // The session ids of the sequences begin with 'session ', so this is the user tag.
    const store = suiteStore(redis.url, { keyPrefix: newPrefix() }, 'session ')
    await using(store, () => assertLikeMemory(store, 30))
  })

  it('lets an application log users in, list their sessions and revoke them', async () => {
    await using(redisStore(redis.url, { keyPrefix: newPrefix(), logger }), async (store) => {
      const app = express()
      const config = { ...testConfig(), store, logger, sessionsPath: '/sessions', useCookies: true }
      const requireDid = setupDidAuth(app, config)
      app.get('/me', requireDid.with({ checkSession: true }), (_req, res) => void res.send('in'))
      const [phone, laptop] = [await signedIn(app, wallet('alice')), await signedIn(app, wallet('alice'))]
      const bob = await signedIn(app, wallet('bob'))
      const statuses = async (): Promise<number[]> =>
        Promise.all([phone, laptop, bob].map(async (fetch) => (await fetch('/me')).status))
      expect(await statuses()).toEqual([200, 200, 200])
      expect(await (await phone('/sessions')).json()).toHaveLength(2)
      await requireDid.sessions.revokeAll(wallet('alice').did)
      expect(await statuses()).toEqual([401, 401, 200])
      await requireDid.close()
    })
  })

  it('stores sessions and challenge uses of a user in one slot; all keys have opaque names and an expiry', async () => {
    const keyPrefix = newPrefix()
    await using(redisStore(redis.url, { keyPrefix, logger }), async (store) => {
      const sessionId = `${toUserTag(did)}session`
      await store.createSession(createSession('a', { sessionId }))
      await store.rotateRefreshToken(createRotation('a', 0, 1, { sessionId }))
      await store.consumeChallenge(createUse())
      await store.chargeQuota(createCharge())
      await store.endSession(service, sessionId, 'loggedOut', START_SECONDS, START_SECONDS + 660)
      const keys = await listKeys(keyPrefix)
      // Hash tag of a slot: 16 characters of the hash of the service URL, and the user tag.
      const tag = `{IkIwMSMvXIk97FEW:${toUserTag(did)}}`
      const ofOthers = ['e:IkIwMSMvXIk97FEW', expect.stringMatching(/^q:[\w-]{22}$/)]
      expect(keys).toEqual([...ofOthers, expect.stringContaining(`${tag}:c:`), `${tag}:s`])
      for (const key of keys) {
        expect(key).not.toContain(did.slice(-8))
        expect(Number(await redis.command('PTTL', keyPrefix + key))).toBeGreaterThan(0)
      }
    })
  })

  it('refuses a session whose id does not start with the tag of its user', async () => {
    await using(redisStore(redis.url, { keyPrefix: newPrefix(), logger }), async (store) => {
      await expect(store.createSession(createSession('a'))).rejects.toThrow('has to begin with the tag of its user')
    })
  })

  it('deletes expired sessions at the next login, and keeps unexpired ones of users with the same tag', async () => {
    // The sweep trusts this clock at once, so that the next login deletes expired sessions.
    const clock = new SweepClock(() => 0, 0)
    const store = openRedisStore(redis.url, { keyPrefix: newPrefix(), logger }, () => 'session-', clock)
    await using(store, async () => {
      await store.createSession(createSession('brief', { expiresAtSeconds: START_SECONDS + 5 }))
      await store.createSession(createSession('lasting', { did: 'did:example:other' }))
      await store.createSession(createSession('next', { nowSeconds: START_SECONDS + 5 }))
      const sessions = await Promise.all(
        ['brief', 'lasting', 'next'].map((name) => store.findSession(service, `session-${name}`))
      )
      expect(sessions.map((session) => session?.did)).toEqual([undefined, 'did:example:other', did])
    })
  })

  it('deletes two records of ended sessions with each new one if they are listed no longer, and all later', async () => {
    const keyPrefix = newPrefix()
    const store = openRedisStore(redis.url, { keyPrefix, logger }, () => 'session-', new SweepClock(() => 0, 0))
    await using(store, async () => {
      const endOne = async (name: string, at: number, listedSeconds: number): Promise<void> => {
        const now = START_SECONDS + at
        await store.createSession(createSession(name, { nowSeconds: now }))
        await store.endSession(service, `session-${name}`, 'loggedOut', now, now + listedSeconds)
      }
      const listed = async (): Promise<string[]> =>
        (await store.listEndedSessions!(service, 0, 100)).map(({ sessionId }) => sessionId.slice(8))
      for (const [index, name] of ['a', 'b', 'c', 'd'].entries()) await endOne(name, index, 660)
      await endOne('e', 662, 660)
      expect(await listed()).toEqual(['c', 'd', 'e'])
      await endOne('f', 663, 100)
      expect(await listed()).toEqual(['e', 'f'])
      const lifetime = Number(await redis.command('PTTL', `${keyPrefix}e:IkIwMSMvXIk97FEW`))
      expect(lifetime).toBeGreaterThan(600_000)
      expect(lifetime).toBeLessThanOrEqual(720_000)
    })
  })

  it('refuses old challenges even after it has deleted their uses, separately for each user', async () => {
    await using(redisStore(redis.url, { keyPrefix: newPrefix(), logger }), async (store) => {
      const later = { window: 6_000_002, nowSeconds: START_SECONDS + 600, expiresAtSeconds: START_SECONDS + 900 }
      expect(await store.consumeChallenge(createUse())).toBe('consumed')
      expect(await store.consumeChallenge(createUse(later))).toBe('consumed')
      expect(await store.countChallengeUses(createUse())).toEqual({ logIn: 0, signUp: 0 })
      expect(await store.consumeChallenge(createUse())).toBe('taken')
      expect(await store.consumeChallenge(createUse({ flow: 'signUp' }))).toBe('taken')
      expect(await store.consumeChallenge(createUse({ did: 'did:example:other' }))).toBe('consumed')
    })
  })
})

describe('quotas in Redis', () => {
  it("have a maximum for anonymous clients: many DIDs neither fill Redis nor displace a user's quota", async () => {
    const keyPrefix = newPrefix()
    const connection = new RedisConnection(redis.url, { keyPrefix })
    // Anonymous quotas share 4 buckets of at most 16 quotas.
    const quotas = createRedisQuotas(connection, 4)
    try {
      await quotas.chargeQuota(createCharge({ key: 'user' }))
      const strangers = Array.from({ length: 400 }, (_, index) =>
        createCharge({ kind: 'anonymous', key: String(index) })
      )
      for (const stranger of strangers) {
        expect(await quotas.chargeQuota(stranger)).toMatchObject({ count: 1 })
        expect(await quotas.chargeQuota(stranger)).toMatchObject({ count: 2 })
      }
      const buckets = (await listKeys(keyPrefix)).filter((key) => key.startsWith('a:'))
      const lengths = await Promise.all(buckets.map((key) => redis.command('HLEN', keyPrefix + key)))
      expect(lengths).toEqual([16, 16, 16, 16])
      // A full bucket deletes the quota that ends first, so `late` remains.
      const late = createCharge({ kind: 'anonymous', key: 'late', nowSeconds: START_SECONDS + 1 })
      await quotas.chargeQuota(late)
      for (const stranger of strangers) await quotas.chargeQuota(stranger)
      expect(await quotas.chargeQuota(late)).toMatchObject({ count: 2 })
      expect(await quotas.chargeQuota(createCharge({ key: 'user' }))).toMatchObject({ count: 2 })
    } finally {
      await connection.close()
    }
  })
})

describe('a client that the application creates', () => {
  it('works with RESP 2 and RESP 3, and stays open', async () => {
    for (const RESP of [2, 3] as const) {
      const client = await createClient({ url: redis.url, RESP }).connect()
      await using(suiteStore(client, { keyPrefix: newPrefix() }), async (store) => {
        await store.createSession(createSession('a'))
        await store.consumeChallenge(createUse())
        expect(await store.listSessions(service, did, START_SECONDS)).toHaveLength(1)
        expect(await store.countChallengeUses(createUse())).toEqual({ logIn: 1, signUp: 0 })
        expect(await store.chargeQuota(createCharge())).toMatchObject({ count: 1, isCharged: true })
      })
      expect(await client.ping()).toBe('PONG')
      client.destroy()
    }
  })

  it('can be any object that sends commands', async () => {
    const client = await createClient({ url: redis.url }).connect()
    const quotas = redisQuotas(
      { sendCommand: (args: string[]) => client.sendCommand(args) },
      { keyPrefix: newPrefix() }
    )
    expect(await quotas.chargeQuota(createCharge({ limit: 1 }))).toMatchObject({ isCharged: true })
    expect(await quotas.chargeQuota(createCharge({ limit: 1 }))).toMatchObject({ isCharged: false, count: 1 })
    client.destroy()
  })
})
