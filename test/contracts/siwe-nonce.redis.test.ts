import { describe, expect, it } from '@jest/globals'
import { randomUUID } from 'node:crypto'
import request from 'supertest'
import { memoryStore } from '../../src/stores/memory/index.js'
import type { Store } from '../../src/ports.js'
import { redisStore } from '../../src/stores/redis/index.js'
import { payloadOf } from '../flows/flow-parts.js'
import { postgresTables } from '../support/postgres-stores.js'
import { testRedis } from '../support/redis-server.js'
import { accountOf, signedSiwe } from '../support/siwe.js'
import { engines, sqliteFile } from '../support/sqlite-stores.js'
import { testApp } from '../support/test-app.js'

/** Two store objects on one storage, as two instances have them; one alone for memory. */
type Open = () => Promise<{ stores: Store[]; close: () => Promise<unknown> }>

const opened: [string, Open][] = [
  ['memory', async () => ({ stores: [memoryStore()], close: async () => undefined })],
  ...engines.map((engine): [string, Open] => [
    engine,
    async () => {
      const file = sqliteFile(engine)
      return { stores: [file.store(), file.store()], close: () => file.remove() }
    }
  ]),
  [
    'PostgreSQL',
    async () => {
      const tables = await postgresTables()
      return { stores: [tables.store(), tables.store()], close: () => tables.drop() }
    }
  ],
  [
    'Redis',
    async () => {
      const redis = await testRedis()
      const options = { keyPrefix: `test ${randomUUID()} `, logger: { warn: () => undefined } }
      const stores = [redisStore(redis.url, options), redisStore(redis.url, options)]
      return { stores, close: () => Promise.all([...stores.map((store) => store.close()), redis.stop()]) }
    }
  ]
]

describe('one nonce', () => {
  it.each(opened)('that arrives 50 times at once opens one session: %s', async (_name, open) => {
    const { stores, close } = await open()
    try {
      const config = { siwe: true, maxRequestsPerTimeSlot: Infinity, replayProtection: 'window' } as const
      const apps = await Promise.all(stores.map(async (store) => (await testApp({ ...config, store })).app))
      const servers = apps.map((app) => app.listen(0))
      const login = await signedSiwe(apps[0]!, accountOf(1))
      const answers = await Promise.all(
        Array.from({ length: 50 }, async (_, index) =>
          request(servers[index % servers.length]!)
            .post('/siwe/verify')
            .send(login)
        )
      )
      for (const server of servers) server.close()
      const good = answers.filter(({ status }) => status === 200)
      expect(good).toHaveLength(1)
      const others = answers.filter((answer) => answer !== good[0])
      expect(new Set(others.map(({ status, text }) => `${status} ${text}`))).toEqual(
        new Set(['401 Invalid challenge response: used'])
      )
      const { sub } = payloadOf(good[0]!.body.accessToken)
      const sessions = await stores[0]!.listSessions('https://service.example', String(sub), 1_800_000_000)
      expect(sessions).toHaveLength(1)
    } finally {
      await close()
    }
  })
})
