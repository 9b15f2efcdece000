import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { chargeOf, rotationOf, service, sessionOf, START_SECONDS, useOf } from '../../src/testing/store-case.js'
import { logIn } from '../support/app-client.js'
import { postgresTables, type PostgresTables } from '../support/postgres-stores.js'
import { testApp } from '../support/test-app.js'
import { scaled } from '../support/time-factor.js'
import { walletOf } from '../support/wallet.js'
import { watchedPool, type WatchedPool } from '../support/postgres-contents.js'

let tables: PostgresTables
let pool: WatchedPool

beforeAll(async () => {
  tables = await postgresTables()
  pool = watchedPool(tables.url)
})

afterAll(async () => {
  await pool.end()
  await tables.drop()
})

/** Statements that were sent meanwhile. */
async function statementsOf(work: () => Promise<unknown>): Promise<number> {
  const before = pool.sent.length
  await work()
  return pool.sent.length - before
}

/** Waits for what a store does beside its first verbs: looking at the sizes of its tables. */
async function untilQuiet(): Promise<void> {
  for (let seen = -1; seen !== pool.sent.length;) {
    seen = pool.sent.length
    await setTimeout(scaled(100))
  }
}

describe('the round trips of a PostgreSQL store', () => {
  it('are one for each verb, two where a session is created or something is refused', async () => {
    const store = postgresStore(pool, { timeoutSeconds: 80 })
    await store.ping()
    await store.chargeQuota(chargeOf({ key: 'first' }))
    await untilQuiet()
    const verbs: Record<string, () => Promise<unknown>> = {
      createSession: () => store.createSession(sessionOf('a')),
      findSession: () => store.findSession(service, 'session-a'),
      rotate: () => store.rotateRefreshToken(rotationOf('a', 0, 1)),
      replaced: () => store.rotateRefreshToken(rotationOf('a', 0, 2)),
      listSessions: () => store.listSessions(service, 'did:example:a', START_SECONDS),
      endSession: () => store.endSession(service, 'session-a', 'loggedOut', START_SECONDS),
      revokeSessions: () => store.revokeSessions(service, 'did:example:a', START_SECONDS),
      countChallengeUses: () => store.countChallengeUses(useOf()),
      consumeChallenge: () => store.consumeChallenge(useOf()),
      chargeQuota: () => store.chargeQuota(chargeOf({ limit: 1 })),
      refused: () => store.chargeQuota(chargeOf({ limit: 1 }))
    }
    const counts: Record<string, number> = {}
    for (const [verb, call] of Object.entries(verbs)) counts[verb] = await statementsOf(call)
    expect(counts).toEqual({
      createSession: 2,
      findSession: 1,
      rotate: 1,
      replaced: 2,
      listSessions: 1,
      endSession: 1,
      revokeSessions: 1,
      countChallengeUses: 1,
      consumeChallenge: 1,
      chargeQuota: 1,
      refused: 2
    })
    await store.close()
  })

  it('are 1 of a guarded request, 2 of a refresh, and at most 7 of a login', async () => {
    const store = postgresStore(pool, { timeoutSeconds: 80 })
    const { app, requireDid } = await testApp({ store })
    // The first login also makes the tables.
    let tokens = await logIn(app, walletOf(1))
    await untilQuiet()
    const login = await statementsOf(async () => {
      tokens = await logIn(app, walletOf(2))
    })
    const guarded = await statementsOf(() =>
      request(app).get('/me').set('Authorization', `DIDAuth ${tokens.accessToken}`).expect(200)
    )
    const refresh = await statementsOf(() =>
      request(app).post('/refresh-token').send({ refreshToken: tokens.refreshToken }).expect(200)
    )
    expect({ guarded, refresh }).toEqual({ guarded: 1, refresh: 2 })
    expect(login).toBeLessThanOrEqual(7)
    await requireDid.close()
    await store.close()
  })
})
