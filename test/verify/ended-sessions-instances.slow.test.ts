import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import type { RequestListener } from 'node:http'
import { postgresStore } from 'express-did-auth/stores/postgres'
import { accessTokenVerifier } from 'express-did-auth/verify'
import { testDatabase, type TestDatabase } from '../support/engines/postgres-server.js'
import { afterTest } from '../support/fixtures/after-test.js'
import { startServer } from '../support/fixtures/client-error.js'
import { serviceWallet, TestClock } from '../support/fixtures/fixtures.js'
import { catchCode } from '../support/fixtures/refusal.js'
import { serviceUrl, testApp, type TestApp } from '../support/servers/test-app.js'

/** Time between two polls, and a time in which lists begin at two different minutes, in seconds. */
const [POLL_SECONDS, DURATION_SECONDS] = [2, 64]
/** Difference of the clock of each instance from that of the reader, in seconds. */
const CLOCKS = { slow: -5, fast: 5 }
type Name = keyof typeof CLOCKS

let database: TestDatabase
beforeAll(async () => {
  database = await testDatabase()
})
afterAll(() => database.drop())

async function startInstance(clock: TestClock): Promise<TestApp> {
  const store = postgresStore(database.url)
  const app = await testApp({ clock, store, endedSessions: true, maxRequestsPerTimeSlot: 1_000 })
  afterTest(
    () => store.close(),
    () => app.requireDid.close()
  )
  return app
}

describe('two instances on PostgreSQL whose clocks are 10 s apart', () => {
  it.each<[Name, string, readonly Name[]]>([
    ['slow', 'the fast one', ['fast']],
    ['fast', 'the slow one', ['slow']],
    ['slow', 'both in turn', ['fast', 'slow']],
    ['fast', 'both in turn', ['slow', 'fast']]
  ])('lose no logout at the %s one for a reader of %s', async (endsAt, _readers, readsFrom) => {
    const clock = new TestClock()
    const clocks = { slow: new TestClock(), fast: new TestClock() }
    const setClocks = (): void => {
      for (const name of ['slow', 'fast'] as const) clocks[name].seconds = clock.seconds + CLOCKS[name]
    }
    setClocks()
    const instances = { slow: await startInstance(clocks.slow), fast: await startInstance(clocks.fast) }
    let polls = 0
    const balancer: RequestListener = (req, res) => {
      const { app } = instances[readsFrom[(polls += 1) % readsFrom.length]!]
      ;(app as unknown as RequestListener)(req, res)
    }
    const endedSessions = { url: `${await startServer(balancer)}/.well-known/ended-sessions` }
    const verify = accessTokenVerifier({ issuer: serviceWallet.did, audience: serviceUrl, endedSessions, clock })
    const works: Promise<unknown>[] = []
    const verifyAndPoll = async (token: string): Promise<unknown> => {
      const request = { headers: { authorization: `Bearer ${token}` } }
      const code = await catchCode(verify.request(request, { waitUntil: (work) => works.push(work) }))
      await Promise.all(works.splice(0))
      return code
    }
    const codes = { beforeLogout: new Set<unknown>(), afterPolls: new Set<unknown>() }
    for (let second = 0; second < DURATION_SECONDS; second += POLL_SECONDS) {
      const { accessToken } = await instances[endsAt].logIn()
      codes.beforeLogout.add(await verifyAndPoll(accessToken))
      await instances[endsAt].logOut(accessToken).expect(200)
      clock.seconds += POLL_SECONDS
      setClocks()
      await verifyAndPoll(accessToken)
      codes.afterPolls.add(await verifyAndPoll(accessToken))
    }
    expect(codes).toEqual({ beforeLogout: new Set([undefined]), afterPolls: new Set(['ERR_SESSION_ENDED']) })
    expect(polls).toBeGreaterThan(DURATION_SECONDS / POLL_SECONDS)
  })
})
