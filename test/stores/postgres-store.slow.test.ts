import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals'
import pg from 'pg'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { PostgresDatabase } from '../../src/stores/postgres/postgres-database.js'
import { createQuotaTable } from '../../src/stores/postgres/quota-table.js'
import { postgresDialect } from '../../src/stores/sql/dialect.js'
import type { SqlQuery, StoreQuery } from '../../src/stores/sql/query.js'
import { deleteExpiredSessions } from '../../src/stores/sql/session-verbs.js'
import { closeWindows, deleteClosedUses } from '../../src/stores/sql/store-verbs.js'
import {
  createCharge,
  did,
  createRotation,
  service,
  createSession,
  START_SECONDS,
  createUse
} from '../../src/testing/store-case.js'
import { postgresTables, type PostgresTables, TEST_TIMEOUT_SECONDS } from '../support/servers/postgres-stores.js'
import { until } from '../support/fixtures/until.js'
import { setTimeout } from 'node:timers/promises'
import request from 'supertest'
import { logIn } from '../support/servers/app-client.js'
import { testApp } from '../support/servers/test-app.js'
import { scaled } from '../support/fixtures/time-factor.js'
import { watchedPool, type WatchedPool } from '../support/servers/postgres-contents.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

let tables: PostgresTables
let pool: WatchedPool

beforeAll(async () => {
  tables = await postgresTables()
  pool = watchedPool(tables.url)
})

afterEach(() => tables.clear())

afterAll(async () => {
  await pool.end()
  await tables.drop()
})

const countRows = async (table: string): Promise<number> =>
  Number((await tables.rows(`SELECT count(*) AS number FROM ${table}`))[0]?.number)

const later = (seconds: number): { nowSeconds: number } => ({ nowSeconds: START_SECONDS + seconds })

describe('postgresStore', () => {
  it("works on an application's pool, and does not close it", async () => {
    const pool = new pg.Pool({ connectionString: tables.url })
    const store = postgresStore(pool)
    await store.createSession(createSession('a'))
    await store.close()
    expect((await pool.query('SELECT did FROM did_auth_sessions')).rows).toEqual([{ did }])
    await pool.end()
  })

  it('detects a stolen token on a pool with custom parsers for bytes and numbers', async () => {
    const types = { getTypeParser: () => (value: unknown) => String(value) }
    const pool = new pg.Pool({ connectionString: tables.url, types: types })
    const store = postgresStore(pool, { timeoutSeconds: TEST_TIMEOUT_SECONDS })
    await store.createSession(createSession('a'))
    await store.rotateRefreshToken(createRotation('a', 0, 1))
    await store.rotateRefreshToken(createRotation('a', 1, 2))
    expect(await store.rotateRefreshToken({ ...createRotation('a', 0, 3), ...later(3_600) })).toBe('reused')
    expect((await store.findSession(service, createSession('a').sessionId))?.state).toBe('revoked')
    await store.close()
    await pool.end()
  })

  it('leaves one listener on a pool, however many stores used it', async () => {
    const pool = new pg.Pool({ connectionString: tables.url })
    for (let index = 0; index < 12; index += 1) await postgresStore(pool).close()
    expect(pool.listenerCount('error')).toBe(1)
    await pool.end()
  })

  it('recovers when the pool can open connections again', async () => {
    const pool = new pg.Pool({ connectionString: tables.url })
    let isBroken = true
    const source = {
      totalCount: 0,
      idleCount: 0,
      connect: () => {
        if (isBroken) throw new Error('no certificate')
        return pool.connect()
      },
      end: () => pool.end(),
      on: () => undefined
    }
    const store = postgresStore(source, { maxWaiting: 2, timeoutSeconds: TEST_TIMEOUT_SECONDS })
    for (let call = 0; call < 3; call += 1) await expect(store.ping()).rejects.toMatchObject({ code: 'ERR_STORE' })
    isBroken = false
    await store.ping()
    await store.close()
    await pool.end()
  })

  it('stores non-ASCII claims in a database of any encoding', async () => {
    const tokenClaims = { name: 'Łukasz 😀\u0000' }
    const store = tables.store()
    await store.createSession(createSession('a', { tokenClaims }))
    expect((await store.findSession(service, createSession('a').sessionId))?.tokenClaims).toEqual(tokenClaims)
    expect((await tables.rows('SELECT token_claims FROM did_auth_sessions'))[0]?.token_claims).toMatch(/^[ -~]+$/)
  })

  it('stores no refresh token and no full history, but 24 bytes of each replaced one', async () => {
    const store = tables.store()
    await store.createSession(createSession('a'))
    for (let token = 0; token < 20; token += 1) await store.rotateRefreshToken(createRotation('a', token, token + 1))
    const [row] = await tables.rows(
      'SELECT length(token_hash) AS hash, length(replaced) AS replaced, length(user_key) AS user FROM did_auth_sessions'
    )
    expect(row).toEqual({ hash: 32, replaced: 16 * 24, user: 16 })
  })

  it('refreshes a session without updating an index', async () => {
    // PostgreSQL counts the updates of a connection at its end.
    const store = tables.store({ poolSize: 1 })
    await store.createSession(createSession('a'))
    const counts = async (): Promise<[all: number, hot: number]> => {
      const text = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'did_auth_sessions'"
      const [row] = await tables.rows(text)
      return [Number(row?.n_tup_upd), Number(row?.n_tup_hot_upd)]
    }
    await tables.rows("SELECT pg_stat_reset_single_table_counters('did_auth_sessions'::regclass)")
    for (let token = 0; token < 20; token += 1) await store.rotateRefreshToken(createRotation('a', token, token + 1))
    await store.close()
    await until(async () => (await counts())[0] >= 20)
    const [all, hot] = await counts()
    // The first refresh of a day is written to the index of days.
    expect(hot / all).toBeGreaterThanOrEqual(0.9)
  })

  it('is not ready while a write waits for an unavailable standby', async () => {
    const store = tables.store({ timeoutSeconds: 1 })
    const writer = new pg.Client({ connectionString: tables.url })
    await writer.connect()
    await writer.query('BEGIN; LOCK did_auth_numbers IN SHARE MODE')
    await expect(store.ping()).rejects.toMatchObject({ code: 'ERR_STORE' })
    await writer.end()
    await until(async () => (await store.ping().catch(() => 'failed')) !== 'failed')
  })
})

describe('a full PostgreSQL store', () => {
  it('deletes the quotas that expire first, only of the kind above its limit', async () => {
    const store = tables.store()
    const charge = (kind: 'request' | 'anonymous', index: number): Promise<unknown> =>
      store.chargeQuota(createCharge({ kind, key: String(index), ...later(index) }))
    for (let index = 0; index < 6; index += 1) await charge('anonymous', index)
    for (let index = 0; index < 3; index += 1) await charge('request', index)
    await tables.analyze()
    await tables.store({ maxQuotas: 4 }).chargeQuota(createCharge({ key: '0' }))
    await until(async () => (await countRows('did_auth_anonymous_quotas')) === 4)
    const remaining = await tables.rows('SELECT resets_at FROM did_auth_anonymous_quotas ORDER BY 1')
    expect(remaining.map(({ resets_at: end }) => Number(end) - START_SECONDS)).toEqual([62, 63, 64, 65])
    expect(await countRows('did_auth_request_quotas')).toBe(3)
  })

  // Cause: a deletion does not change the estimate. Each instance therefore deleted the surplus again, until no quota
  // was left.
  it('deletes no further quotas while the estimate is out of date', async () => {
    const store = tables.store()
    for (let index = 0; index < 6; index += 1) {
      await store.chargeQuota(createCharge({ kind: 'anonymous', key: String(index), ...later(index) }))
    }
    await tables.analyze()
    for (let instance = 0; instance < 3; instance += 1) {
      const database = new PostgresDatabase(tables.url)
      const quotas = createQuotaTable((statement, values) => database.query(statement, values), 4)
      await quotas.trim!(async (deleteSome) => {
        await deleteSome(1_000)
      })
      await database.close()
      expect(await countRows('did_auth_anonymous_quotas')).toBe(4)
    }
  })
})

describe('a step of the sweep in PostgreSQL', () => {
  let database: PostgresDatabase
  let query: StoreQuery
  beforeAll(() => {
    database = new PostgresDatabase(tables.url, { timeoutSeconds: TEST_TIMEOUT_SECONDS })
    const run: SqlQuery = (statement, values) => database.query(statement, values)
    query = Object.assign(run, { dialect: postgresDialect })
  })
  afterAll(() => database.close())

  const hour = 3_600
  const closedUntil = async (): Promise<number> => {
    const [row] = await tables.rows("SELECT number FROM did_auth_numbers WHERE name = 'usesForgottenUntil'")
    return Number(row?.number)
  }

  it('deletes no use and closes no other window until the grace period after a closing is over', async () => {
    const store = tables.store()
    for (const end of [300, 600]) {
      await store.consumeChallenge(createUse({ window: end, until: end }))
    }
    await tables.rows(`UPDATE did_auth_numbers SET changed_at = 0 WHERE name = 'usesForgottenUntil'`)
    await closeWindows.run(query, START_SECONDS + 300, hour)
    await closeWindows.run(query, START_SECONDS + 600, hour)
    expect([await closedUntil(), await deleteClosedUses.run(query, hour, 10)]).toEqual([START_SECONDS + 300, 0])
    await tables.rows(`UPDATE did_auth_numbers SET changed_at = changed_at - ${hour}`)
    expect(await deleteClosedUses.run(query, hour, 10)).toBe(1)
    await closeWindows.run(query, START_SECONDS + 600, hour)
    expect(await closedUntil()).toBe(START_SECONDS + 600)
  })

  it('skips sessions that another transaction has locked, and waits for no other sweep', async () => {
    const store = tables.store()
    for (const name of ['a', 'b']) await store.createSession(createSession(name))
    const sweep = () => deleteExpiredSessions.run(query, START_SECONDS + 10 * 86_400, 10)
    await database.transaction(async (lock) => {
      await lock({ text: "SELECT pg_advisory_xact_lock(hashtextextended('did_auth_delete_sessions', 0))" })
      expect(await sweep()).toBe(0)
    })
    await database.transaction(async (lock) => {
      await lock({ text: "SELECT 1 FROM did_auth_sessions WHERE session_id = 'session-a' FOR UPDATE" })
      expect(await sweep()).toBe(1)
    })
    expect(await sweep()).toBe(1)
  })
})

describe('the sweep of a PostgreSQL store', () => {
  it('runs on one instance, and other instances do not wait for it', async () => {
    await tables.rows(`INSERT INTO did_auth_request_quotas SELECT int8send(n), 1, ${START_SECONDS}
      FROM generate_series(1, 5000) n`)
    const stores = Array.from({ length: 5 }, () => tables.store())
    const charges = stores.map((store, index) =>
      store.chargeQuota(createCharge({ key: String(index), ...later(1000) }))
    )
    expect((await Promise.all(charges)).map(({ count }) => count)).toEqual([1, 1, 1, 1, 1])
    await until(async () => (await countRows('did_auth_request_quotas')) === 5)
    const [{ deadlocks } = {}] = await tables.rows(
      'SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()'
    )
    expect(deadlocks).toBe('0')
  })

  it('stops on close', async () => {
    await tables.rows(`INSERT INTO did_auth_request_quotas SELECT int8send(n), 1, ${START_SECONDS}
      FROM generate_series(1, 5000) n`)
    const store = tables.store({ poolSize: 10 })
    await store.chargeQuota(createCharge(later(1000)))
    await store.close()
    await expect(store.chargeQuota(createCharge(later(2000)))).rejects.toMatchObject({ code: 'ERR_STORE' })
  })
})

/** Returns the number of statements sent during the work. */
async function countStatements(work: () => Promise<unknown>): Promise<number> {
  const before = pool.sent.length
  await work()
  return pool.sent.length - before
}

/** Waits until a store has read the sizes of its tables, which it does during its first verbs. */
async function untilQuiet(): Promise<void> {
  for (let seen = -1; seen !== pool.sent.length;) {
    seen = pool.sent.length
    await setTimeout(scaled(100))
  }
}

describe('the round trips of a PostgreSQL store', () => {
  it('are one per verb, two if a session is created or a call is refused', async () => {
    const store = postgresStore(pool, { timeoutSeconds: 80 })
    await store.ping()
    await store.chargeQuota(createCharge({ key: 'first' }))
    await untilQuiet()
    const verbs: [verb: string, statements: number, call: () => Promise<unknown>][] = [
      ['createSession', 2, () => store.createSession(createSession('a'))],
      ['findSession', 1, () => store.findSession(service, 'session-a')],
      ['rotate', 1, () => store.rotateRefreshToken(createRotation('a', 0, 1))],
      ['replaced', 2, () => store.rotateRefreshToken(createRotation('a', 0, 2))],
      ['listSessions', 1, () => store.listSessions(service, 'did:example:a', START_SECONDS)],
      ['endSession', 1, () => store.endSession(service, 'session-a', 'loggedOut', START_SECONDS)],
      ['revokeSessions', 1, () => store.revokeSessions(service, 'did:example:a', START_SECONDS)],
      ['countChallengeUses', 1, () => store.countChallengeUses(createUse())],
      ['consumeChallenge', 1, () => store.consumeChallenge(createUse())],
      ['chargeQuota', 1, () => store.chargeQuota(createCharge({ limit: 1 }))],
      ['refused', 2, () => store.chargeQuota(createCharge({ limit: 1 }))]
    ]
    for (const [verb, statements, call] of verbs)
      expect([verb, await countStatements(call)]).toEqual([verb, statements])
    await store.close()
  })

  it('are 1 for a guarded request, 2 for a refresh, and at most 7 for a login', async () => {
    const store = postgresStore(pool, { timeoutSeconds: 80 })
    const { app, requireDid } = await testApp({ store })
    // The first login also creates the tables.
    let tokens = await logIn(app, createNumberedWallet(1))
    await untilQuiet()
    const login = await countStatements(async () => {
      tokens = await logIn(app, createNumberedWallet(2))
    })
    const guarded = await countStatements(() =>
      request(app).get('/me').set('Authorization', `DIDAuth ${tokens.accessToken}`).expect(200)
    )
    const refresh = await countStatements(() =>
      request(app).post('/refresh-token').send({ refreshToken: tokens.refreshToken }).expect(200)
    )
    expect({ guarded, refresh }).toEqual({ guarded: 1, refresh: 2 })
    expect(login).toBeLessThanOrEqual(7)
    await requireDid.close()
    await store.close()
  })
})
