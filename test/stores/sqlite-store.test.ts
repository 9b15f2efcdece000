import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { openSqliteConnection } from 'express-did-auth/server-kit'
import { sqliteStore } from 'express-did-auth/stores/sqlite'
import { sqliteDialect } from '../../src/stores/sql/dialect.js'
import { createTables } from '../../src/stores/sql/tables.js'
import { prepareTables } from '../../src/stores/sqlite/prepare-tables.js'
import { openConnection } from '../../src/stores/sqlite/sqlite-engine.js'
import type { ThreadDatabase } from '../../src/stores/sqlite/serve-sqlite.js'
import {
  createCharge,
  did,
  hashToken,
  createRotation,
  service,
  createSession,
  START_SECONDS,
  createUse
} from '../../src/testing/store-case.js'
import { engines, sqliteFile, type SqliteFile } from '../support/servers/sqlite-stores.js'
import { spawnSync } from 'node:child_process'
import { pathToFileURL } from 'node:url'
import { nodeOptions, scriptFile } from '../support/servers/run-script.js'
import { startedWorkers } from '../support/servers/start-sqlite-worker.js'
import { temporaryFolder } from '../support/fixtures/store-folder.js'
import { scaled } from '../support/fixtures/time-factor.js'
import { until } from '../support/fixtures/until.js'

const sessionId = 'session-a'

describe.each(engines)('a SQLite store by %s', (engine) => {
  let files: SqliteFile
  beforeEach(() => {
    files = sqliteFile(engine)
  })
  afterEach(() => files.remove())

  const rowsIn = (table: string): unknown => files.rows(`SELECT count(*) AS n FROM did_auth_${table}`)[0]?.n

  it('keeps sessions and uses after a restart', async () => {
    const first = files.store()
    await first.createSession(createSession('a', { tokenClaims: { role: 'admin' } }))
    await first.rotateRefreshToken(createRotation('a', 0, 1, { tokenClaims: { role: 'reader' } }))
    await first.consumeChallenge(createUse())
    await first.close()
    const second = files.store()
    const session = await second.findSession(service, sessionId)
    expect({ ...session }).toEqual({
      sessionId,
      did,
      state: 'active',
      tokenClaims: { role: 'reader' },
      createdAtSeconds: START_SECONDS,
      rotatedAtSeconds: START_SECONDS + 10,
      expiresAtSeconds: START_SECONDS + 3610,
      refreshTokenHash: hashToken('a', 1),
      replacedTokens: [{ hash: hashToken('a', 0).slice(0, 24), replacedAtSeconds: START_SECONDS + 10 }]
    })
    expect(await second.rotateRefreshToken(createRotation('a', 0, 2))).toBe('replaced')
    expect(await second.countChallengeUses(createUse())).toEqual({ logIn: 1, signUp: 0 })
  })

  it('creates files that only their owner can read, and keeps the mode of an existing file', async () => {
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

  it('uses a write-ahead log and strict tables', async () => {
    await files.store().ping()
    expect(files.rows('PRAGMA journal_mode')).toEqual([{ journal_mode: 'wal' }])
    const tables = files.rows('PRAGMA table_list').filter(({ name }) => String(name).startsWith('did_auth_'))
    expect(tables.length).toBeGreaterThan(1)
    for (const table of tables) expect(table).toMatchObject({ strict: 1 })
  })

  it("works with the application's tables in one file, and does not change them", async () => {
    const ownFile = files.inspect()
    ownFile.exec('CREATE TABLE sessions (id); PRAGMA user_version = 7')
    await files.store().createSession(createSession('a'))
    expect(ownFile.prepare('PRAGMA user_version').get()).toMatchObject({ user_version: 7 })
    expect(rowsIn('sessions')).toBe(1)
  })

  it('refuses tables of a later version, and names it', async () => {
    await files.store().close()
    files.inspect().exec("UPDATE did_auth_numbers SET number = 2 WHERE name = 'version'")
    expect(() => files.store()).toThrow('the database has tables of version 2, not 1')
  })

  it('adds ended sessions and descriptions to a file of the first version, which older code can still open', async () => {
    const older = openConnection(files.file, engine, { synchronous: 'FULL' })
    prepareTables(older, createTables(sqliteDialect), 'did_auth_numbers')
    const store = files.store()
    await store.createSession(createSession('a'))
    expect(await store.endSession(service, sessionId, 'loggedOut', START_SECONDS, START_SECONDS + 660)).toBe(true)
    await store.createSession(createSession('b', { description: 'Chrome on Windows' }))
    await store.close()
    prepareTables(older, createTables(sqliteDialect), 'did_auth_numbers')
    older.close()
    const [session] = await files.store().listSessions(service, did, START_SECONDS)
    expect(session?.description).toBe('Chrome on Windows')
    expect(await files.store().listEndedSessions!(service, 0, 9)).toEqual([
      { sessionId, endedAtSeconds: START_SECONDS }
    ])
  })

  it('ends no session whose end it cannot record', async () => {
    const store = files.store()
    const names = ['a', 'b', 'c']
    for (const name of names) await store.createSession(createSession(name))
    await store.rotateRefreshToken(createRotation('b', 0, 1))
    const trigger = 'BEFORE INSERT ON did_auth_ended_sessions BEGIN SELECT raise(abort, $$no record$$); END'
    files.inspect().exec(`CREATE TRIGGER failing ${trigger.replaceAll('$$', "'")}`)
    const listUntilSeconds = START_SECONDS + 660
    const endings = [
      store.endSession(service, sessionId, 'loggedOut', START_SECONDS, listUntilSeconds),
      store.rotateRefreshToken(createRotation('b', 0, 'x', { at: 60, listUntilSeconds })),
      store.revokeSessions(service, did, START_SECONDS, listUntilSeconds)
    ]
    for (const ending of endings) await expect(ending).rejects.toThrow('no record')
    const sessions = await Promise.all(names.map((name) => store.findSession(service, `session-${name}`)))
    expect(sessions.map((session) => session?.state)).toEqual(['active', 'active', 'active'])
    expect(await store.listEndedSessions!(service, 0, 9)).toEqual([])
  })

  it('refuses a file that is not a database, and one in a missing folder', () => {
    writeFileSync(files.file, 'x'.repeat(5000))
    expect(() => files.store()).toThrow(expect.objectContaining({ code: 'SQLITE_NOTADB' }))
    expect(() => sqliteStore(`${files.folder}/none/auth.db`)).toThrow(/ENOENT/)
  })

  it('stores only hashes of refresh tokens', async () => {
    const store = files.store()
    await store.createSession(createSession('a'))
    const [row] = files.rows(
      'SELECT *, hex(token_hash) AS hash, hex(session_key) AS key, hex(user_key) AS user FROM did_auth_sessions'
    )
    expect(row).toMatchObject({
      number: 1,
      session_id: 'session-a',
      did,
      state: 0,
      token_claims: null,
      hash: Buffer.from(hashToken('a', 0), 'base64url').toString('hex').toUpperCase(),
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

  it.each(['auth.db', ':memory:'])('reads in another thread during writes, except in memory: %s', async (name) => {
    const started = startedWorkers.length
    const store = name === ':memory:' ? sqliteStore(name) : files.store()
    await store.findSession(service, sessionId)
    await Promise.all([store.ping(), store.findSession(service, sessionId)])
    const roles = startedWorkers.slice(started).map(({ settings }) => (settings as ThreadDatabase).role)
    expect(roles).toEqual(name === ':memory:' ? ['writer'] : ['writer', 'reader'])
    await store.close()
  })

  it('stores everything in memory on request, and nothing afterwards', async () => {
    const store = sqliteStore(':memory:')
    await store.createSession(createSession('a'))
    expect((await store.chargeQuota(createCharge())).count).toBe(1)
    expect(await store.findSession(service, sessionId)).toBeDefined()
    await store.close()
    const another = sqliteStore(':memory:')
    expect(await another.findSession(service, sessionId)).toBeUndefined()
    await another.close()
  })

  it('deletes 200 rows at a time in a sweep, because all verbs wait for it', async () => {
    const store = files.store()
    const sent = jest.spyOn(startedWorkers.at(-1)!.worker, 'postMessage')
    await Promise.all(
      Array.from({ length: 201 }, (_, index) => store.createSession(createSession(`${index}`, { did: `${index}` })))
    )
    await store.consumeChallenge(createUse({ at: 200_000, until: 200_300 }))
    await until(async () => (await store.ping(), rowsIn('sessions') === 0))
    expect(JSON.stringify(sent.mock.calls)).toMatch(/deleteExpiredSessions\\+",\d+,200\]/)
  })

  it('counts the rows if their ids span more than the limit', async () => {
    const first = files.store()
    for (const name of ['a', 'b', 'c', 'd']) await first.createSession(createSession(name))
    files.inspect().exec("DELETE FROM did_auth_sessions WHERE session_id IN ('session-b', 'session-c')")
    expect(await files.store({ maxSessions: 3 }).createSession(createSession('e'))).toBe(0)
  })
})

describe('sqliteStore', () =>
  it('refuses an empty name, which SQLite would use for a temporary file, and an open database', () => {
    expect(() => sqliteStore('')).toThrow(TypeError)
    expect(() => sqliteStore({} as unknown as string)).toThrow('needs the name of its file')
  }))

describe('openSqliteConnection', () =>
  it('waits for the disk on request, so that commits survive a power failure', async () => {
    const files = sqliteFile()
    for (const [synchronous, level] of [
      ['FULL', 2],
      ['NORMAL', 1]
    ] as const) {
      const connection = openSqliteConnection(files.file, engines[0]!, { synchronous, busyMilliseconds: 0 })
      expect(connection.prepare('PRAGMA synchronous').all()).toEqual([{ synchronous: level }])
      expect(connection.prepare('PRAGMA journal_mode').all()).toEqual([{ journal_mode: 'wal' }])
      connection.close()
    }
    await files.remove()
  }))

const entry = pathToFileURL(scriptFile('src/stores/sqlite/index.ts')).href

/** Runs a script with `store` until it exits. */
function run(file: string, script: string): { status: number | null; stdout: string } {
  const text = `
    const { sqliteStore } = await import('${entry}')
    const store = sqliteStore('${file}')
    ${script}`
  writeFileSync(`${file}.mjs`, text)
  const args = [...nodeOptions, `${file}.mjs`]
  return spawnSync(process.execPath, args, { encoding: 'utf8', timeout: scaled(120_000) })
}

describe('a process with an open SQLite store', () => {
  it('exits when it has nothing else to do', () => {
    const { path, remove } = temporaryFolder()
    expect(run(`${path}/a.db`, "await store.ping(); console.log('done')")).toMatchObject({
      status: 0,
      stdout: 'done\n'
    })
    expect(run(`${path}/b.db`, "console.log('unused')")).toMatchObject({ status: 0, stdout: 'unused\n' })
    remove()
  })

  it('exits only after its calls are completed', async () => {
    const { path, remove } = temporaryFolder()
    const session = JSON.stringify(createSession('a'))
    const { stdout } = run(`${path}/a.db`, `store.createSession(${session}).then((n) => console.log('answered', n))`)
    expect(stdout).toBe('answered 0\n')
    const store = sqliteStore(`${path}/a.db`)
    expect((await store.findSession(service, 'session-a'))?.state).toBe('active')
    await store.close()
    remove()
  })
})
