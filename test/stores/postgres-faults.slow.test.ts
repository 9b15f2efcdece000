import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals'
import { setTimeout as pause } from 'node:timers/promises'
import type { Store } from '../../src/ports.js'
import { currentClient } from '../../src/current-client.js'
import { openPostgresStore, type PostgresStoreOptions } from '../../src/stores/postgres/postgres-store.js'
import { getPostgresCode } from '../../src/stores/postgres/index.js'
import {
  createBench,
  createCharge,
  createRotation,
  service,
  createSession,
  START_SECONDS,
  createUse
} from '../../src/testing/store-case.js'
import { rounds } from '../support/fixtures/time-factor.js'
import { loseAnswers } from '../support/faults/postgres-lost-answers.js'
import { startPostgres } from '../support/engines/postgres-server.js'
import { postgresTables, TEST_TIMEOUT_SECONDS, type PostgresTables } from '../support/servers/postgres-stores.js'
import { tcpProxy, type TcpProxy } from '../support/faults/tcp-proxy.js'
import { until } from '../support/fixtures/until.js'
import { catchCode } from '../support/fixtures/refusal.js'

let tables: PostgresTables
let proxy: TcpProxy
const open: Store[] = []

/** Creates a store that connects through the proxy. */
function behindProxy(options: PostgresStoreOptions = {}): Store {
  const url = new URL(tables.url)
  url.port = String(proxy.port)
  const store = openPostgresStore(url.href, { timeoutSeconds: TEST_TIMEOUT_SECONDS, ...options })
  open.push(store)
  return store
}

beforeAll(async () => {
  tables = await postgresTables()
  proxy = await tcpProxy(Number(new URL(tables.url).port))
})

afterEach(async () => {
  proxy.blackHole(false)
  proxy.delay(0)
  proxy.cutAfter(Infinity)
  proxy.reset()
  await Promise.all(open.splice(0).map((store) => store.close()))
  await tables.clear()
})

afterAll(async () => {
  await proxy.close()
  await tables.drop()
})

describe('a PostgreSQL store whose connections are cut', () => {
  it('reports correctly whether a verb was executed', async () => {
    expect(await loseAnswers(behindProxy(), proxy, rounds(4, 50))).toEqual([])
  })

  it('rejects as unavailable if the retry is cut too, and works afterwards', async () => {
    const store = behindProxy()
    await store.createSession(createSession('a'))
    // The greeting of a new connection does not arrive completely either.
    proxy.cutAfter(10)
    proxy.reset()
    expect(await catchCode(store.rotateRefreshToken(createRotation('a', 0, 1)))).toBe('ERR_STORE')
    proxy.cutAfter(Infinity)
    expect(await store.rotateRefreshToken(createRotation('a', 0, 1))).toBe('rotate')
  })

  it('is unavailable while the network drops everything, and other stores are not', async () => {
    const [store, other] = [behindProxy({ poolSize: 2, timeoutSeconds: 1 }), tables.store()]
    await store.createSession(createSession('a'))
    proxy.blackHole(true)
    const calls = [1, 2, 3, 4].map(() => catchCode(store.findSession(service, 'session-a')))
    expect((await other.findSession(service, 'session-a'))?.state).toBe('active')
    const [first, second, ...waiting] = await Promise.all(calls)
    expect([first, second]).toEqual(['ERR_STORE', 'ERR_STORE'])
    // Calls that wait for a connection are refused as busy if connections worked just before.
    for (const code of waiting) expect(['ERR_STORE', 'ERR_BUSY']).toContain(code)
    // Each unresponsive connection is closed, not only dropped from the pool.
    await until(() => Promise.resolve(proxy.connections() === 0))
    proxy.blackHole(false)
    await until(async () => (await catchCode(store.findSession(service, 'session-a'))) === undefined)
  })
})

describe('a PostgreSQL store with few connections', () => {
  it('needs one connection per verb, however many verbs run at once', async () => {
    const store = behindProxy({ poolSize: 1 })
    await store.createSession(createSession('a'))
    await store.rotateRefreshToken(createRotation('a', 0, 1))
    const verbs: ((index: number) => Promise<unknown>)[] = [
      (index) => store.createSession(createSession(`new ${index}`)),
      (index) => store.rotateRefreshToken(createRotation('a', index % 2, `next ${index}`)),
      (index) => store.endSession(service, `session-new ${index}`, 'loggedOut', START_SECONDS),
      () => store.revokeSessions(service, 'did:example:nobody', START_SECONDS),
      () => store.listSessions(service, 'did:example:nobody', START_SECONDS),
      (index) => store.consumeChallenge(createUse({ useCount: index % 2 })),
      () => store.chargeQuota(createCharge({ limit: 2 })),
      () => store.ping()
    ]
    await createBench(store, store, 'works').allAtOnce(120, (_, index) => verbs[index % verbs.length]!(index))
    expect(proxy.connections()).toBe(1)
  })
})

describe('a PostgreSQL store with many waiting verbs of one client network', () => {
  it('serves networks in turn: 400 concurrent verbs delay those of another by few round trips', async () => {
    const store = behindProxy({ poolSize: 2 })
    await store.ping()
    proxy.delay(5)
    let isOver = false
    const chargeAs = (network: string, key: string): Promise<unknown> =>
      new Promise((resolve) => {
        const client = { network, isGone: () => false }
        currentClient.run(client, () => resolve(catchCode(store.chargeQuota(createCharge({ key })))))
      })
    let served = 0
    const flood = Array.from({ length: 400 }, async (_, index) => {
      while (!isOver) {
        if ((await chargeAs('flood', String(index))) === undefined) served += 1
        // The queue of a network is shorter, and refuses the others at once.
        else await pause(5)
      }
    })
    await until(() => served > 20)
    const outcomes: unknown[] = []
    const before = served
    for (let call = 0; call < 5; call += 1) outcomes.push(await chargeAs('other', 'a'))
    const servedMeanwhile = served - before
    isOver = true
    proxy.delay(0)
    await Promise.all(flood)
    expect(outcomes).toEqual(Array(5).fill(undefined))
    // A store that serves verbs in their order would let each of the 5 wait for all in the queue.
    expect(servedMeanwhile).toBeGreaterThan(0)
    expect(servedMeanwhile).toBeLessThan(100)
  })

  it('refuses as busy after a long queue, and as unavailable if nothing is queued', async () => {
    const store = behindProxy({ poolSize: 1, timeoutSeconds: 4 })
    await store.ping()
    proxy.delay(200)
    const charge = (): Promise<unknown> => catchCode(store.chargeQuota(createCharge()))
    const outcomes = await Promise.all(Array.from({ length: 60 }, charge))
    expect(new Set(outcomes)).toEqual(new Set([undefined, 'ERR_BUSY']))
    proxy.delay(0)
    proxy.blackHole(true)
    await charge()
    expect(new Set(await Promise.all(Array.from({ length: 60 }, charge)))).toEqual(new Set(['ERR_STORE']))
  })
})

describe('a PostgreSQL store whose server crashes', () => {
  it('rejects only as unavailable, loses no acknowledged write, and recovers with the server', async () => {
    const engine = await startPostgres()
    const store = openPostgresStore(engine.url(), { timeoutSeconds: TEST_TIMEOUT_SECONDS })
    const [acknowledged, codes]: [string[], Set<unknown>] = [[], new Set()]
    let isOver = false
    const write = async (writer: number): Promise<void> => {
      for (let number = 0; !isOver; number += 1) {
        const name = `${writer} ${number}`
        const code = await catchCode(store.createSession(createSession(name, { did: `did:example:${name}` })))
        if (code === undefined) acknowledged.push(name)
        else codes.add(code)
      }
    }
    const waitForWrites = (): Promise<void> => {
      const before = acknowledged.length
      return until(() => acknowledged.length > before + 20)
    }
    try {
      expect((await store.chargeQuota(createCharge())).count).toBe(1)
      const writers = [0, 1, 2, 3].map(write)
      for (let crash = 0; crash < rounds(1, 20); crash += 1) {
        await waitForWrites()
        codes.clear()
        await engine.stop('immediate')
        await until(() => codes.size > 0)
        await engine.start()
      }
      await waitForWrites()
      isOver = true
      await Promise.all(writers)
      expect([...codes]).toEqual(['ERR_STORE'])
      // Reads one by one: after a slow crash, the number of writes exceeds the queue limit of the pool.
      for (const name of acknowledged) expect(await store.findSession(service, `session-${name}`)).toBeDefined()
      // The crash has emptied the quotas, because their tables are unlogged.
      expect((await store.chargeQuota(createCharge())).count).toBe(1)
    } finally {
      isOver = true
      await store.close()
      await engine.remove()
    }
  })

  it('can be created before its server starts', async () => {
    const engine = await startPostgres()
    await engine.stop()
    const store = openPostgresStore(engine.url(), { timeoutSeconds: TEST_TIMEOUT_SECONDS })
    try {
      const error: unknown = await store.ping().catch((reason: unknown) => reason)
      expect(error).toMatchObject({ code: 'ERR_STORE', retryAfterSeconds: 5 })
      expect(getPostgresCode(error)).toBe('ECONNREFUSED')
      await engine.start()
      await store.ping()
    } finally {
      await store.close()
      await engine.remove()
    }
  })
})
