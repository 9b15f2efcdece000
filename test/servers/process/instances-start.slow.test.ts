import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { pathToFileURL } from 'node:url'
import { countDeadlocks, findDomain, Instances } from '../../support/servers/instances.js'
import { runOn, startPostgres, testDatabase, type TestDatabase } from '../../support/engines/postgres-server.js'
import { scriptFile } from '../../support/servers/run-script.js'
import {
  ask,
  askUntilReady,
  logIn,
  me,
  post,
  refresh,
  signedLogin,
  type Tokens
} from '../../support/servers/server-client.js'
import type { ServerProcess } from '../../support/servers/server-process.js'
import { steadily } from '../../support/fixtures/until.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const domain = findDomain('auth')
/** A longer pause of the machine may cause a timeout and a 503: the attempt is then repeated. */
const STANDSTILL_MILLISECONDS = 1_500

describe('ten instances that start together on an empty database', () => {
  it('create its tables once, and are all ready', async () => {
    const engine = await startPostgres({ log_statement: 'ddl' })
    const instances = new Instances({ DATABASE_URL: engine.url() })
    try {
      const started = await Promise.all([
        instances.startMany(4, 'auth'),
        instances.startMany(3, 'vault'),
        instances.startMany(3, 'relay')
      ])
      for (const { url } of started.flat()) await askUntilReady(url)
      const createdTables = engine.log().match(/CREATE (?:UNLOGGED )?TABLE (?!IF NOT EXISTS)\w+/g) ?? []
      expect(createdTables.length).toBeGreaterThan(10)
      expect(new Set(createdTables).size).toBe(createdTables.length)
      // Each instance first queries the version tables, which do not exist yet.
      expect(engine.log()).not.toMatch(/ERROR: {2}(?!relation "\w+_schema" does not exist)/)
    } finally {
      await instances.killAll()
      await engine.remove()
    }
  })
})

describe('instances whose clocks differ', () => {
  let database: TestDatabase
  let instances: Instances
  let number = 60_000

  /** Starts an auth server whose clock is ahead. */
  const startAhead = (seconds: number, env: Record<string, string> = {}): Promise<ServerProcess> => {
    const hook = pathToFileURL(scriptFile('test/support/servers/shift-clock.ts')).href
    return instances.start('auth', { ...env, TEST_CLOCK_SHIFT_SECONDS: String(seconds) }, [hook])
  }
  const createNextWallet = () => createNumberedWallet((number += 1))

  beforeEach(async () => {
    database = await testDatabase()
    instances = new Instances({ DATABASE_URL: database.url })
  })

  afterEach(async () => {
    await instances.killAll()
    expect(await countDeadlocks(database.url)).toBe(0)
    await database.drop()
  })

  it('act as one service with clocks that are 4 s apart', async () => {
    const [slow, fast] = await Promise.all([startAhead(-2), startAhead(2)])
    const urls = [slow.url, fast.url]
    for (const [issuingUrl, otherUrl] of [urls, urls.toReversed()] as [string, string][]) {
      await steadily(STANDSTILL_MILLISECONDS, async () => {
        const login = await signedLogin(issuingUrl, createNextWallet(), domain)
        const opened = await Promise.all([0, 1, 2, 3, 4, 5].map((index) => post(`${urls[index % 2]}/auth`, login)))
        expect(opened.map(({ status }) => status).sort()).toEqual([200, 401, 401, 401, 401, 401])
        const tokens = await logIn(issuingUrl, createNextWallet(), domain)
        expect((await me(otherUrl, tokens.accessToken)).status).toBe(200)
        const refreshed = await Promise.all(urls.map((url) => refresh(url, tokens.refreshToken)))
        expect(refreshed.map(({ status }) => status).sort()).toEqual([200, 401])
        const next = JSON.parse(refreshed.find(({ status }) => status === 200)!.text) as Tokens
        for (const url of urls) expect((await me(url, next.accessToken)).status).toBe(200)
      })
    }
    for (const url of urls) {
      expect(JSON.parse((await askUntilReady(url)).text)).toMatchObject({ dependencies: { clock: 'ok' } })
    }
  })

  it('are not ready with a clock that is 60 s ahead, and accept no signature twice', async () => {
    const { windowSeconds, endsAtSeconds } = findWindowThatEndsSoon()
    const env = { CHALLENGE_EXPIRATION_TIME_IN_SECONDS: String(windowSeconds), REFRESH_REUSE_GRACE_SECONDS: '10' }
    const right = await startAhead(0, env)
    const login = await signedLogin(right.url, createNextWallet(), domain)
    const opened = await post(`${right.url}/auth`, login)
    // The other instance considers this window expired, and sweeps expired uses with its first request.
    const fast = await startAhead(60, env)
    const { status, text } = await ask(`${fast.url}/ready`)
    expect([status, JSON.parse(text)]).toMatchObject([503, { dependencies: { clock: 'wrong', database: 'ok' } }])
    expect((JSON.parse(text) as { reasons: { clock: string } }).reasons.clock).toMatch(/^\d\d s ahead of the database$/)
    await logIn(fast.url, createNextWallet(), domain)
    expect((await post(`${fast.url}/auth`, login)).status).toBe(401)
    expect((await post(`${right.url}/auth`, login)).status).toBe(401)
    const uses = await runOn(database.url, 'SELECT 1 FROM did_auth_challenge_uses WHERE expires_at = $1', [
      endsAtSeconds
    ])
    expect([opened.status, uses.length]).toEqual([200, 1])
  })
})

/** Finds a length of challenge windows with which a window ends within a minute, though not at once. */
function findWindowThatEndsSoon(): { windowSeconds: number; endsAtSeconds: number } {
  const nowSeconds = Math.floor(Date.now() / 1_000)
  for (let endsAtSeconds = nowSeconds + 55; ; endsAtSeconds -= 1) {
    for (let windowSeconds = 100; windowSeconds < 1_000; windowSeconds += 1) {
      if (endsAtSeconds % windowSeconds === 0) return { windowSeconds, endsAtSeconds }
    }
  }
}
