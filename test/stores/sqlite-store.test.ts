import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { openSqliteConnection, sqliteStore, type Store } from 'express-did-auth/stores/sqlite'
import {
  chargeOf,
  did,
  hashOf,
  rotationOf,
  service,
  sessionOf,
  START_SECONDS,
  useOf
} from '../../src/testing/store-case.js'
import { engines, sqliteFile, type SqliteFile } from '../support/sqlite-stores.js'

const sessionId = 'session-a'
const HOUR = 3600
const DAY = 24 * HOUR

describe.each(engines)('a SQLite store by %s', (engine) => {
  let files: SqliteFile
  beforeEach(() => {
    files = sqliteFile(engine)
  })
  afterEach(() => files.remove())

  const rowsIn = (table: string): unknown => files.rows(`SELECT count(*) AS n FROM did_auth_${table}`)[0]?.n
  const closedUntil = (): unknown =>
    files.rows("SELECT number AS n FROM did_auth_numbers WHERE name = 'usesForgottenUntil'")[0]?.n
  /** Sweeps run between verbs: lets verbs come until there are no more than so many rows. */
  const sweptTo = async (store: Store, rows: () => unknown, count: number): Promise<void> => {
    for (let round = 0; round < 100 && rows() !== count; round += 1) await store.ping()
    expect(rows()).toBe(count)
  }

  it('keeps sessions and uses over a restart', async () => {
    const first = files.store()
    await first.createSession(sessionOf('a', { tokenClaims: { role: 'admin' } }))
    await first.rotateRefreshToken(rotationOf('a', 0, 1, { tokenClaims: { role: 'reader' } }))
    await first.consumeChallenge(useOf())
    await first.close()
    const second = files.store()
    const found = await second.findSession(service, sessionId)
    expect({ ...found }).toEqual({
      sessionId,
      did,
      state: 'active',
      tokenClaims: { role: 'reader' },
      createdAtSeconds: START_SECONDS,
      rotatedAtSeconds: START_SECONDS + 10,
      expiresAtSeconds: START_SECONDS + 3610,
      refreshTokenHash: hashOf('a', 1),
      replacedTokens: [{ hash: hashOf('a', 0).slice(0, 24), replacedAtSeconds: START_SECONDS + 10 }]
    })
    expect(await second.rotateRefreshToken(rotationOf('a', 0, 2))).toBe('replaced')
    expect(await second.countChallengeUses(useOf())).toEqual({ logIn: 1, signUp: 0 })
  })

  it('makes files that only their owner can read, and leaves the mode of a file that was there', async () => {
    const store = files.store()
    await store.ping()
    const names = ['auth.db', 'auth.db-shm', 'auth.db-wal']
    expect(readdirSync(files.folder).sort()).toEqual(names)
    for (const name of names) expect(statSync(`${files.folder}/${name}`).mode & 0o777).toBe(0o600)
    await store.close()
    chmodSync(files.file, 0o640)
    await files.store().ping()
    expect(statSync(files.file).mode & 0o777).toBe(0o640)
  })

  it('keeps a log of writes beside strict tables', async () => {
    await files.store().ping()
    expect(files.rows('PRAGMA journal_mode')).toEqual([{ journal_mode: 'wal' }])
    const tables = files.rows('PRAGMA table_list').filter(({ name }) => String(name).startsWith('did_auth_'))
    expect(tables.length).toBeGreaterThan(1)
    for (const table of tables) expect(table).toMatchObject({ strict: 1 })
  })

  it("works beside the application's tables, and leaves what is its alone", async () => {
    const own = files.inspect()
    own.exec('CREATE TABLE sessions (id); PRAGMA user_version = 7')
    await files.store().createSession(sessionOf('a'))
    expect(own.prepare('PRAGMA user_version').get()).toMatchObject({ user_version: 7 })
    expect(rowsIn('sessions')).toBe(1)
  })

  it('refuses tables of a later version, and says which', async () => {
    await files.store().close()
    files.inspect().exec("UPDATE did_auth_numbers SET number = 2 WHERE name = 'version'")
    expect(() => files.store()).toThrow('the database has tables of version 2, not 1')
  })

  it('refuses at once a file that is no database, and one in no folder', () => {
    writeFileSync(files.file, 'x'.repeat(5000))
    expect(() => files.store()).toThrow(expect.objectContaining({ code: 'SQLITE_NOTADB' }))
    expect(() => sqliteStore(`${files.folder}/none/auth.db`)).toThrow(/ENOENT/)
  })

  it('holds only hashes of refresh tokens', async () => {
    const store = files.store()
    await store.createSession(sessionOf('a'))
    const [row] = files.rows(
      'SELECT *, hex(token_hash) AS hash, hex(session_key) AS key, hex(user_key) AS user FROM did_auth_sessions'
    )
    expect(row).toMatchObject({
      number: 1,
      session_id: 'session-a',
      did,
      state: 0,
      token_claims: null,
      hash: Buffer.from(hashOf('a', 0), 'base64url').toString('hex').toUpperCase(),
      key: expect.stringMatching(/^[0-9A-F]{32}$/),
      user: expect.stringMatching(/^[0-9A-F]{32}$/),
      created_at: 1_800_000_000,
      rotated_at: 1_800_000_000,
      expires_at: 1_800_003_600,
      sweep_day: 20_834,
      refreshed_day: null
    })
    expect(readFileSync(`${files.file}-wal`).length).toBeGreaterThan(0)
  })

  it('keeps everything in memory where it is told so, and nothing after', async () => {
    const store = sqliteStore(':memory:')
    await store.createSession(sessionOf('a'))
    expect((await store.chargeQuota(chargeOf())).count).toBe(1)
    expect(await store.findSession(service, sessionId)).toBeDefined()
    await store.close()
    const another = sqliteStore(':memory:')
    expect(await another.findSession(service, sessionId)).toBeUndefined()
    await another.close()
  })

  it('deletes sessions that expired before the day began, with verbs a minute apart', async () => {
    const store = files.store()
    for (const name of ['a', 'b', 'c']) await store.createSession(sessionOf(name, { did: `did:example:${name}` }))
    await store.createSession(
      sessionOf('d', { nowSeconds: START_SECONDS + 59, expiresAtSeconds: START_SECONDS + 9 * DAY })
    )
    expect(rowsIn('sessions')).toBe(4)
    await store.createSession(
      sessionOf('e', { nowSeconds: START_SECONDS + DAY, expiresAtSeconds: START_SECONDS + 9 * DAY })
    )
    await sweptTo(store, () => rowsIn('sessions'), 2)
    expect(await store.findSession(service, 'session-d')).toBeDefined()
  })

  it('deletes thousands of expired sessions, more than one transaction takes', async () => {
    const store = files.store()
    await Promise.all(
      Array.from({ length: 1200 }, (_, index) =>
        store.createSession(sessionOf(`${index}`, { did: `did:example:${index}` }))
      )
    )
    const late = { nowSeconds: START_SECONDS + DAY, expiresAtSeconds: START_SECONDS + 9 * DAY }
    await store.createSession(sessionOf('late', late))
    await sweptTo(store, () => rowsIn('sessions'), 1)
  })

  it('deletes uses a minute after their window', async () => {
    const store = files.store()
    for (const user of ['a', 'b', 'c']) {
      await store.consumeChallenge(useOf({ did: user }))
    }
    const later = { window: 6_000_001, expiresAtSeconds: START_SECONDS + 600 }
    await store.consumeChallenge(useOf({ ...later, nowSeconds: START_SECONDS + 359 }))
    await store.ping()
    expect(rowsIn('challenge_uses')).toBe(4)
    await store.consumeChallenge(useOf({ ...later, did: 'd', nowSeconds: START_SECONDS + 450 }))
    await sweptTo(store, () => closedUntil(), START_SECONDS + 300)
    await store.consumeChallenge(useOf({ ...later, did: 'd', useCount: 1, nowSeconds: START_SECONDS + 550 }))
    await sweptTo(store, () => rowsIn('challenge_uses'), 2)
  })

  // Cause: uses were deleted a minute after their window, and a clock that was set back made the signatures good again.
  it('answers taken for a window whose uses it deleted, also after a restart, when the clock is set back', async () => {
    const store = files.store()
    await store.consumeChallenge(useOf())
    await store.consumeChallenge(
      useOf({ did: 'b', window: 6_000_002, nowSeconds: START_SECONDS + 900, expiresAtSeconds: START_SECONDS + 1200 })
    )
    await sweptTo(store, () => closedUntil(), START_SECONDS + 300)
    expect(await store.consumeChallenge(useOf())).toBe('taken')
    await store.close()
    const again = files.store()
    expect(await again.consumeChallenge(useOf())).toBe('taken')
    expect(await again.consumeChallenge(useOf({ did: 'never seen' }))).toBe('taken')
    // The next window was never forgotten: nothing of it was there.
    expect(await again.consumeChallenge(useOf({ window: 6_000_001, expiresAtSeconds: START_SECONDS + 600 }))).toBe(
      'consumed'
    )
  })

  it('keeps its bounds, which it looks at when it is opened', async () => {
    const first = files.store()
    for (const name of ['a', 'ended', 'b']) await first.createSession(sessionOf(name, { did: `did:example:${name}` }))
    await first.endSession(service, 'session-ended', 'loggedOut', START_SECONDS)
    await first.rotateRefreshToken(rotationOf('a', 0, 1))
    await first.consumeChallenge(useOf())
    const store = files.store({ maxSessions: 3, maxChallengeUses: 1 })
    const evicted: number[] = []
    for (const name of ['c', 'd', 'e'])
      evicted.push(await store.createSession(sessionOf(name, { did: `did:example:${name}` })))
    // What was never refreshed goes first, the oldest of it first; what ended does not count as evicted.
    expect(evicted).toEqual([0, 1, 1])
    const left = files.rows('SELECT session_id FROM did_auth_sessions ORDER BY number')
    expect(left.map(({ session_id: id }) => id)).toEqual(['session-a', 'session-d', 'session-e'])
    expect(await store.consumeChallenge(useOf({ did: 'did:example:new' }))).toBe('full')
    expect(await store.consumeChallenge(useOf({ useCount: 1 }))).toBe('consumed')
  })

  it('counts the rows where their ids span more than the bound', async () => {
    const first = files.store()
    for (const name of ['a', 'b', 'c', 'd']) await first.createSession(sessionOf(name))
    files.inspect().exec("DELETE FROM did_auth_sessions WHERE session_id IN ('session-b', 'session-c')")
    expect(await files.store({ maxSessions: 3 }).createSession(sessionOf('e'))).toBe(0)
  })

  it('charges no more than the limit, and says when it is good again', async () => {
    const store = files.store()
    const charges = [3, 3, 4, 1].map((cost) => store.chargeQuota(chargeOf({ cost, limit: 7 })))
    const resetsAtSeconds = START_SECONDS + 60
    expect(await Promise.all(charges)).toEqual([
      { isCharged: true, count: 3, resetsAtSeconds },
      { isCharged: true, count: 6, resetsAtSeconds },
      { isCharged: false, count: 6, resetsAtSeconds },
      { isCharged: true, count: 7, resetsAtSeconds }
    ])
    expect((await store.chargeQuota(chargeOf({ key: 'new', cost: 8, limit: 7 }))).isCharged).toBe(false)
    expect((await store.chargeQuota(chargeOf({ key: 'new', limit: Infinity }))).count).toBe(1)
  })
})

describe('sqliteStore', () => {
  it('refuses an empty name, which SQLite would take for a temporary file, and an open database', () => {
    expect(() => sqliteStore('')).toThrow(TypeError)
    expect(() => sqliteStore({} as unknown as string)).toThrow('needs the name of its file')
  })
})

describe('openSqliteConnection', () => {
  it('waits for the disk where it is asked to, which keeps commits over the loss of power', async () => {
    const files = sqliteFile('better-sqlite3')
    for (const [synchronous, level] of [
      ['FULL', 2],
      ['NORMAL', 1]
    ] as const) {
      const connection = openSqliteConnection(files.file, 'better-sqlite3', { synchronous, busyMilliseconds: 0 })
      expect(connection.prepare('PRAGMA synchronous').all()).toEqual([{ synchronous: level }])
      expect(connection.prepare('PRAGMA journal_mode').all()).toEqual([{ journal_mode: 'wal' }])
      connection.close()
    }
    await files.remove()
  })
})
