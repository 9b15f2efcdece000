import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import Database from 'better-sqlite3'
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import type { Store } from 'express-did-auth'
import { sqliteStore } from 'express-did-auth/stores/sqlite'
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
import { openSqliteDatabase } from '../../src/adapters/sqlite-database.js'
import { temporaryFolder } from '../support/store-folder.js'

describe('sqliteStore', () => {
  let folder: ReturnType<typeof temporaryFolder>
  let file: string
  let open: { close(): unknown }[]

  const opened = (...args: Parameters<typeof sqliteStore>): Store => {
    const store = sqliteStore(...args)
    open.push(store)
    return store
  }
  const database = (name = file): Database.Database => {
    const made = new Database(name)
    open.push(made)
    return made
  }
  const rowsIn = (table: string): number =>
    database().prepare(`SELECT count(*) FROM did_auth_${table}`).pluck().get() as number

  beforeEach(() => {
    folder = temporaryFolder()
    file = `${folder.path}/auth.db`
    open = []
  })
  afterEach(async () => {
    for (const one of open) await one.close()
    folder.remove()
  })

  it('keeps sessions, uses and quotas over a restart', async () => {
    const first = sqliteStore(file)
    await first.createSession(sessionOf('a'))
    await first.rotateRefreshToken(rotationOf('a', 'b'))
    await first.useChallenge(useOf())
    await first.chargeQuota(chargeOf())
    await first.close()
    const second = opened(file)
    expect((await second.findSession(service, hashOf('b')))?.rotatedAtSeconds).toBe(START_SECONDS + 10)
    expect(await second.rotateRefreshToken(rotationOf('a', 'c'))).toBe('replaced')
    expect(await second.countChallengeUses(useOf())).toEqual({ logIn: 1, signUp: 0 })
    expect((await second.chargeQuota(chargeOf())).count).toBe(2)
  })

  it('makes files that only their owner can read, and leaves the mode of a file that was there', async () => {
    const store = opened(file)
    await store.createSession(sessionOf('a'))
    expect(readdirSync(folder.path).sort()).toEqual(['auth.db', 'auth.db-shm', 'auth.db-wal'])
    for (const name of readdirSync(folder.path)) expect(statSync(`${folder.path}/${name}`).mode & 0o777).toBe(0o600)
    const given = `${folder.path}/given.db`
    writeFileSync(given, '')
    chmodSync(given, 0o640)
    opened(given)
    expect(statSync(given).mode & 0o777).toBe(0o640)
  })

  it('waits for the disk where it is asked to, which keeps commits over the loss of power', () => {
    for (const [synchronous, level] of [
      ['FULL', 2],
      ['NORMAL', 1]
    ] as const) {
      const connection = openSqliteDatabase(file, synchronous)
      open.push(connection)
      expect(connection.prepare('PRAGMA synchronous').all()).toEqual([{ synchronous: level }])
    }
  })

  it('keeps a log of writes beside strict tables', () => {
    opened(file)
    const inspected = database()
    expect(inspected.pragma('journal_mode', { simple: true })).toBe('wal')
    const tables = inspected.pragma('table_list') as { name: string; strict: number }[]
    const ours = tables.filter(({ name }) => name.startsWith('did_auth_'))
    expect(ours.map(({ strict }) => strict)).toEqual([1, 1, 1, 1, 1])
  })

  it('works in a database of the application, beside its tables, and leaves it open', async () => {
    const own = database()
    own.exec('CREATE TABLE sessions (id); PRAGMA user_version = 7')
    const store = sqliteStore(own)
    await store.createSession(sessionOf('a'))
    await store.chargeQuota(chargeOf())
    await store.close()
    expect(own.open).toBe(true)
    expect(own.pragma('user_version', { simple: true })).toBe(7)
  })

  it('neither joins nor ends a transaction that the application has begun', async () => {
    const own = database()
    const store = sqliteStore(own)
    own.exec('BEGIN')
    await expect(store.createSession(sessionOf('a'))).rejects.toThrow('in a transaction already')
    expect(own.inTransaction).toBe(true)
    own.exec('COMMIT')
    await store.createSession(sessionOf('a'))
  })

  it('refuses an empty name, which SQLite would take for a temporary file', () => {
    expect(() => sqliteStore('')).toThrow(TypeError)
  })

  it('refuses tables of a later version', () => {
    opened(file)
    database().exec("UPDATE did_auth_numbers SET number = 2 WHERE name = 'version'")
    expect(() => sqliteStore(file)).toThrow('tables of version 2, not 1')
  })

  it('refuses a file that is no database, and one in no folder', () => {
    writeFileSync(file, 'x'.repeat(5000))
    expect(() => sqliteStore(file)).toThrow('file is not a database')
    expect(() => sqliteStore(`${folder.path}/none/auth.db`)).toThrow(/ENOENT|does not exist/)
  })

  it('rejects every verb once it is closed, and may be closed twice', async () => {
    const store = sqliteStore(file)
    await store.close()
    await store.close()
    await expect(store.ping()).rejects.toThrow()
    await expect(store.createSession(sessionOf('a'))).rejects.toThrow()
    await expect(store.findSession(service, hashOf('a'))).rejects.toThrow()
    await expect(store.chargeQuota(chargeOf())).rejects.toThrow()
  })

  it('rejects when the disk is full, changes nothing, and goes on when there is room again', async () => {
    const own = database()
    const store = sqliteStore(own)
    await store.createSession(sessionOf('a'))
    own.pragma(`max_page_count = ${String(own.pragma('page_count', { simple: true }))}`)
    const claims = { tokenClaims: { text: 'x'.repeat(900) } }
    const fill = async (): Promise<void> => {
      for (let index = 0; index < 50; index += 1) await store.createSession(sessionOf(String(index), claims))
    }
    await expect(fill()).rejects.toMatchObject({ code: 'SQLITE_FULL' })
    expect(own.inTransaction).toBe(false)
    expect(await store.findSession(service, hashOf('a'))).toBeDefined()
    own.pragma('max_page_count = 100000')
    await store.createSession(sessionOf('after', claims))
    expect(await store.rotateRefreshToken(rotationOf('after', 'after 2'))).toBe('rotate')
  })

  it('rejects pings and writes where the file can only be read, and still reads', async () => {
    await opened(file).createSession(sessionOf('a'))
    const own = database()
    const store = sqliteStore(own)
    own.pragma('query_only = on')
    await expect(store.createSession(sessionOf('b'))).rejects.toMatchObject({ code: 'SQLITE_READONLY' })
    expect(await store.findSession(service, hashOf('a'))).toBeDefined()
  })

  it('waits for another process that writes, without holding this one up', async () => {
    const store = opened(file)
    const other = database()
    other.exec('BEGIN IMMEDIATE')
    const created = store.createSession(sessionOf('a'))
    // Its first attempt was made above; this runs in between two attempts.
    other.exec('COMMIT')
    await created
    expect(await store.findSession(service, hashOf('a'))).toBeDefined()
  })

  it('holds only hashes of refresh tokens', async () => {
    const store = opened(file)
    await store.createSession(sessionOf('a'))
    const columns = database().prepare('SELECT * FROM did_auth_sessions').all()
    expect(columns).toEqual([
      {
        id: 1,
        service: 'https://service.example',
        session_id: 'session-a',
        canonical_did: did,
        did,
        state: 'active',
        token_claims: null,
        refresh_token_hash: hashOf('a'),
        rotations: 0,
        created_at: 1_800_000_000,
        rotated_at: 1_800_000_000,
        expires_at: 1_800_003_600
      }
    ])
    expect(readFileSync(`${file}-wal`).length).toBeGreaterThan(0)
  })

  it('deletes expired sessions with their replaced tokens as others come', async () => {
    const store = opened(file)
    for (const name of ['a', 'b', 'c']) {
      await store.createSession(sessionOf(name, { did: `did:example:${name}` }))
      await store.rotateRefreshToken(rotationOf(name, `${name} 2`))
    }
    const late = { nowSeconds: START_SECONDS + 3610, expiresAtSeconds: START_SECONDS + 9999 }
    await store.createSession(sessionOf('d', late))
    expect([rowsIn('sessions'), rowsIn('replaced_tokens')]).toEqual([2, 1])
    await store.createSession(sessionOf('e', late))
    expect([rowsIn('sessions'), rowsIn('replaced_tokens')]).toEqual([2, 0])
  })

  it('deletes ended uses and quotas as others come', async () => {
    const store = opened(file)
    for (const user of ['a', 'b', 'c', 'd']) {
      await store.useChallenge(useOf({ did: user }))
      await store.chargeQuota(chargeOf({ key: user }))
    }
    // Uses are kept for a minute longer than their window.
    const nowSeconds = START_SECONDS + 360
    await store.useChallenge(useOf({ window: 6_000_001, nowSeconds, expiresAtSeconds: START_SECONDS + 600 }))
    await store.chargeQuota(chargeOf({ nowSeconds }))
    expect([rowsIn('challenge_uses'), rowsIn('quotas')]).toEqual([2, 2])
  })

  it('keeps its bounds, and its count of rows right', async () => {
    const store = opened(file, { maxSessions: 3, maxChallengeUses: 3, maxQuotas: 3 })
    const outcomes: string[] = []
    for (let index = 0; index < 5; index += 1) {
      const user = `did:example:${index}`
      await store.createSession(sessionOf(user, { did: user, expiresAtSeconds: START_SECONDS + 3600 + index }))
      outcomes.push(await store.useChallenge(useOf({ did: user })))
      await store.chargeQuota(chargeOf({ key: user, nowSeconds: START_SECONDS + index }))
      await store.chargeQuota(chargeOf({ key: user, nowSeconds: START_SECONDS + index, kind: 'naming' }))
    }
    expect(outcomes).toEqual(['used', 'used', 'used', 'full', 'full'])
    expect([rowsIn('sessions'), rowsIn('challenge_uses'), rowsIn('quotas')]).toEqual([3, 3, 6])
    expect(await store.findSession(service, hashOf('did:example:1'))).toBeUndefined()
    expect(database().prepare('SELECT name, number FROM did_auth_numbers ORDER BY name').raw().all()).toEqual([
      ['challengeUses', 3],
      ['namingQuotas', 3],
      ['requestQuotas', 3],
      ['sessions', 3],
      ['version', 1]
    ])
  })
})
