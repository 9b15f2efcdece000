import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { openPostgresStore } from '../../src/stores/postgres/postgres-store.js'
import { service, sessionOf } from '../../src/testing/store-case.js'
import { loseAnswers } from '../support/postgres-lost-answers.js'
import { startPostgres, type PostgresEngine } from '../support/postgres-server.js'
import { TEST_TIMEOUT_SECONDS } from '../support/postgres-stores.js'
import { tcpProxy } from '../support/tcp-proxy.js'
import { until } from '../support/until.js'

let engine: PostgresEngine

beforeAll(async () => {
  engine = await startPostgres()
})

afterAll(() => engine.remove())

describe('a PostgreSQL store, at length', () => {
  it('answers the truth when the connections of each verb are cut 50 times', async () => {
    const proxy = await tcpProxy(engine.port)
    const url = `postgres://postgres@127.0.0.1:${proxy.port}/postgres`
    const store = openPostgresStore(url, { timeoutSeconds: TEST_TIMEOUT_SECONDS })
    await store.ping()
    expect(await loseAnswers(store, proxy, 50)).toEqual([])
    await store.close()
    await proxy.close()
  })

  it('loses nothing that it answered in 20 crashes of the server, and is back after each', async () => {
    const store = openPostgresStore(engine.url(), { timeoutSeconds: TEST_TIMEOUT_SECONDS })
    await store.ping()
    const answered: string[] = []
    const codes = new Set<unknown>()
    let isOver = false
    const writers = Array.from({ length: 4 }, async (_, writer) => {
      for (let number = 0; !isOver; number += 1) {
        const name = `${writer} ${number}`
        try {
          await store.createSession(sessionOf(name, { did: `did:example:${name}` }))
          answered.push(name)
        } catch (error) {
          codes.add((error as { code?: unknown }).code)
        }
      }
    })
    for (let round = 0; round < 20; round += 1) {
      const before = answered.length
      await until(() => answered.length > before + 20)
      await engine.stop('immediate')
      await engine.start()
    }
    const before = answered.length
    await until(() => answered.length > before + 20)
    isOver = true
    await Promise.all(writers)
    expect([...codes]).toEqual(['ERR_STORE'])
    const lost: string[] = []
    for (const name of answered) {
      if ((await store.findSession(service, `session-${name}`)) === undefined) lost.push(name)
    }
    expect(lost).toEqual([])
    await store.close()
  })
})
