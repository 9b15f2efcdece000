import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { PostgresDatabase } from 'express-did-auth/stores/postgres'
import { runCopy } from '../../../servers/tools/copy.js'
import { runMigrate } from '../../../servers/tools/migrate.js'
import { readEnv } from '../../../servers/config/read-env.js'
import { openPostgresContents } from '../../../servers/content/engine.js'
import type { OpenContentStore } from '../../../servers/content/sql/sql-content-store.js'
import { createS3ObjectStore } from '../../../servers/content/s3/s3-object-store.js'
import { openContentStore } from '../../../servers/content/sql/open-sqlite-contents.js'
import { openSqliteStore } from '../../../src/stores/sqlite/sqlite-store.js'
import { runCommand } from '../../support/servers/command-line.js'
import { computeCid, createEntry, createFile, readText } from '../../support/servers/content-stores.js'
import { startFakeS3 } from '../../support/faults/fake-s3.js'
import { testDatabase, type TestDatabase } from '../../support/engines/postgres-server.js'
import { folderOfEachTest } from '../../support/fixtures/folder-of-each-test.js'
import { openDatabase, testVault, VaultUser } from '../../support/servers/vault-app.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const NOW = Math.floor(Date.now() / 1_000)
const [ANN, BEN] = [createNumberedWallet(501), createNumberedWallet(502)]
const BIG = 'big '.repeat(262_144)

let database: TestDatabase
let pool: PostgresDatabase
let tables: string[]
const folder = folderOfEachTest()
const open: { close(): Promise<void> }[] = []

beforeAll(async () => {
  database = await testDatabase()
  pool = new PostgresDatabase(database.url)
  await runCommand(runMigrate, [], { DATABASE_URL: database.url })
  const rows = await database.query(`SELECT tablename FROM pg_tables
    WHERE tablename ~ '^(did_auth|relay|vault)_' AND tablename !~ '_(schema|probes|numbers)$'`)
  tables = rows.map(({ tablename }) => String(tablename))
})
afterAll(async () => {
  await pool.close()
  await database.drop()
})
afterEach(async () => {
  await Promise.all(open.splice(0).map((store) => store.close()))
  await database.empty(tables)
})

let bucket: Record<string, string> = {}

async function copy(...args: string[]): Promise<{ code: number; lines: string[] }> {
  const env = { DATA_DIR: folder.path, DATABASE_URL: database.url, ...bucket }
  const { code, lines } = await runCommand(runCopy, args, env)
  return { code, lines: lines.filter((line) => !line.includes('up to date')) }
}

/** Opens the store in the folder. Close it before a copy. */
async function openLocal(name: 'relay' | 'vault', tracksPins = false): Promise<OpenContentStore['store']> {
  const { store } = await openContentStore({ folder: join(folder.path, name), database: `${name}.db`, tracksPins })
  open.push(store)
  return store
}

/** Opens the store of the same server in the database. */
async function openMoved(name: 'relay' | 'vault'): Promise<OpenContentStore> {
  const env = readEnv({ DATA_DIR: join(folder.path, 'instance'), DATABASE_URL: database.url }, name, false, 'operate')
  const opened = await openPostgresContents(pool, env, undefined)
  open.push(opened.store)
  return opened
}

/** Writes lists of two users: shared content, content of 1 MiB, and entries that are replaced and removed. */
async function fillVault(store: OpenContentStore['store'], entriesEach = 120): Promise<void> {
  for (const { did } of [ANN, BEN]) {
    for (let number = 0; number < entriesEach; number += 1) {
      const text = number % 3 === 0 ? `shared ${number}` : `${did} ${number}`
      await store.writeEntry(createEntry(`key ${number % 4}`, text, { did }))
    }
    await store.writeEntry(createEntry('big', BIG, { did }))
    await store.writeEntry(createEntry('key 0', `${did} 4`, { did, replaces: { cid: computeCid('shared 0') } }))
    await store.writeEntry(createEntry('key 1', `${did} 5`, { did, replaces: { cid: computeCid(`${did} 5`) } }))
    await store.writeEntry(createEntry('empty', '', { did }))
    await store.writeEntry(createEntry('none', 'removed', { did }))
    await store.removeEntries({ did, key: 'none' })
  }
}

/** Reads everything of the users: lists with ETags and texts, in their order, and usage. */
async function readEverything(store: OpenContentStore['store']): Promise<unknown> {
  const lists = [ANN, BEN].flatMap(({ did }) =>
    ['key 0', 'key 1', 'key 2', 'key 3', 'big', 'empty', 'none'].map(async (key) => {
      const { etag, entries } = await store.listEntries({ did, key })
      const texts = await Promise.all((await store.readContents(entries.map(({ cid }) => cid))).map(readText))
      return { etag, entries, texts }
    })
  )
  const users = [ANN, BEN].map(async ({ did }) => [await store.readUsage(did), await store.listOwnEntries(did)])
  return Promise.all([...lists, ...users])
}

describe('the command copy', () => {
  it('copies each entry of a vault once, with the order and ETags of its lists, also in a second run', async () => {
    const store = await openLocal('vault')
    await fillVault(store)
    const evil = Array.from({ length: 501 }, (_, number) => computeCid(`evil ${number}`))
    await Promise.all(evil.map((cid) => store.takeDown(cid, 'takedown', NOW)))
    const before = await readEverything(store)
    await store.close()
    const line = 'vault: entries copied: 242 (already in the database: 0)'
    expect(await copy()).toEqual({ code: 0, lines: [line, expect.stringContaining('Not copied: sessions')] })
    const target = await openMoved('vault')
    expect(await readEverything(target.store)).toEqual(before)
    const denied = await database.query('SELECT cid FROM vault_denied')
    expect(denied.map(({ cid }) => cid).toSorted()).toEqual(evil.toSorted())
    expect(await target.inspection.recount({ isDryRun: true })).toEqual({
      owners: 0,
      damagedLists: [],
      unusedContents: 0
    })

    expect((await copy()).lines[0]).toContain('entries copied: 0 (already in the database: 242)')
    // The entry of a new user also gets a number above all copied ones, and stays behind entries of a later copy.
    await target.store.writeEntry(createEntry('key', 'first', { did: 'did:ethr:rsk:0xc' }))
    expect(Number((await database.query('SELECT max(number) AS last FROM vault_entries'))[0]?.last)).toBe(126)
    await target.store.writeEntry(createEntry('key 0', 'later', { did: ANN.did }))
    const { entries } = await target.store.listEntries({ did: ANN.did, key: 'key 0' })
    expect(entries.at(-1)?.cid).toBe(computeCid('later'))
  })

  it('adds new entries, and keeps changes that were made in the database', async () => {
    const store = await openLocal('vault')
    await fillVault(store, 8)
    await store.close()
    await copy()
    const target = await openMoved('vault')
    await target.store.writeEntry(createEntry('key 0', 'there', { did: ANN.did }))
    await target.store.takeDown(computeCid('refused'), 'takedown', NOW)
    const reopened = await openLocal('vault')
    await reopened.writeEntry(createEntry('key 0', 'here', { did: ANN.did }))
    await reopened.writeEntry(createEntry('key 0', 'refused', { did: ANN.did }))
    await reopened.close()
    const { code, lines } = await copy()
    expect(code).toBe(0)
    expect(lines.slice(0, 2)).toEqual([
      expect.stringContaining('vault: entries copied: 1 '),
      'vault: skipped, because the database has them as taken down: 1'
    ])
    const cids = (await target.store.listEntries({ did: ANN.did, key: 'key 0' })).entries.map(({ cid }) => cid)
    expect(cids).toEqual(expect.arrayContaining([computeCid('there'), computeCid('here')]))
    expect(cids).not.toContain(computeCid('refused'))
  })

  it('copies large content to the bucket, from files and from the bucket itself', async () => {
    const fake = await startFakeS3()
    const options = fake.options()
    const filled = await openLocal('vault')
    await filled.writeEntry(createEntry('key', BIG))
    await filled.close()
    const objects = createS3ObjectStore(options)
    const bucketStore = await openContentStore({ folder: join(folder.path, 'vault'), database: 'vault.db', objects })
    await bucketStore.store.writeEntry(createEntry('key', `${BIG}other`))
    const { etag } = await bucketStore.store.describeList(createEntry('key', ''))
    await bucketStore.store.close()
    bucket = {
      S3_ENDPOINT: options.endpoint,
      S3_BUCKET: options.bucket,
      S3_REGION: options.region,
      S3_ACCESS_KEY_ID: options.accessKeyId,
      S3_SECRET_ACCESS_KEY: options.secretAccessKey
    }
    try {
      expect(await copy()).toMatchObject({
        code: 0,
        lines: [expect.stringContaining('entries copied: 2 '), expect.anything()]
      })
      const env = readEnv({ DATA_DIR: folder.path, DATABASE_URL: database.url }, 'vault', false, 'operate')
      const { store } = await openPostgresContents(pool, env, objects)
      const list = await store.listEntries(createEntry('key', ''))
      expect(list.etag).toBe(etag)
      const texts = await Promise.all((await store.readContents(list.entries.map(({ cid }) => cid))).map(readText))
      expect(texts.map((text) => text.length)).toEqual([BIG.length, BIG.length + 5])
      expect(await database.query('SELECT * FROM vault_objects')).toEqual([])
    } finally {
      bucket = {}
      await fake.close()
    }
  })

  it('makes a server on the copy answer as the server on the original', async () => {
    const before = await testVault({}, { folder: join(folder.path, 'vault') })
    const user = await VaultUser.logIn(before.listener, ANN)
    for (const content of ['one', 'two', BIG]) await user.post('notes', content).expect(201)
    await user.put(`notes/${computeCid('one')}`, 'three').expect(200)
    const originalAnswers = [await user.read('notes').expect(200), await user.head('notes').expect(200)]
    await before.close()
    expect((await copy()).code).toBe(0)
    const after = await testVault({}, { contents: await openMoved('vault') })
    const reader = new VaultUser(after.listener, ANN.did, '')
    const copiedAnswers = [await reader.read('notes').expect(200), await reader.head('notes').expect(200)]
    const pick = ({ body, headers }: { body: unknown; headers: Record<string, unknown> }): unknown => [
      body,
      headers.etag,
      headers['content-length']
    ]
    expect(copiedAnswers.map(pick)).toEqual(originalAnswers.map(pick))
    await reader.head('notes').set('If-None-Match', String(originalAnswers[0]?.headers.etag)).expect(304)
    await after.close()
  })

  it('copies relay files with their expiry, and keeps the later expiry of an existing file', async () => {
    const store = await openLocal('relay')
    const createRelayFile = (text: string, ttlSeconds: number) => createFile(text, { nowSeconds: NOW, ttlSeconds })
    await store.writeFile(createRelayFile('short', 1_000))
    await store.writeFile(createRelayFile(BIG, 2_000))
    await store.writeFile(createFile('ended', { nowSeconds: NOW - 2_000, ttlSeconds: 1_000 }))
    await store.close()
    expect((await copy()).lines.slice(0, 2)).toEqual([
      'relay: files copied: 2 (already in the database: 0)',
      expect.stringContaining('Not copied: sessions (users have to log in again), expired files')
    ])
    const reopened = await openLocal('relay')
    await reopened.writeFile(createRelayFile('short', 5_000))
    await reopened.close()
    const { store: target } = await openMoved('relay')
    await target.writeFile(createRelayFile(BIG, 9_000))
    expect((await copy()).lines[0]).toContain('relay: files copied: 1 (already in the database: 1)')
    expect(await target.findFile(computeCid('short'), NOW)).toMatchObject({ expiresAtSeconds: NOW + 5_000 })
    expect(await target.findFile(computeCid(BIG), NOW)).toMatchObject({ expiresAtSeconds: NOW + 9_000 })
    expect(await target.findFile(computeCid('ended'), NOW)).toBeUndefined()
    expect(await readText((await target.readContents([computeCid(BIG)]))[0])).toBe(BIG)
    expect(await database.query('SELECT * FROM relay_posts')).toEqual([])
  })

  it('copies the desired state of pins', async () => {
    const store = await openLocal('vault', true)
    await store.writeEntry(createEntry('key', 'pinned'))
    const [task] = await store.claim({ limit: 1, nowSeconds: NOW, leaseSeconds: 60 })
    await store.finish(task!, NOW)
    await store.writeEntry(createEntry('key', 'open'))
    await store.writeEntry(createEntry('key', 'tried'))
    const [tried] = await store.claim({ cids: [computeCid('tried')], limit: 1, nowSeconds: NOW, leaseSeconds: 60 })
    await store.postpone(tried!, NOW + 60)
    await store.writeEntry(createEntry('key', 'gone'))
    await store.removeEntries({ ...createEntry('key', ''), cid: computeCid('gone') })
    await store.close()
    await copy()
    await copy()
    const rows = await database.query('SELECT cid, state, is_in_doubt FROM vault_pins')
    const expected = [
      { cid: computeCid('pinned'), state: 'pinned', is_in_doubt: 0 },
      { cid: computeCid('open'), state: 'pin', is_in_doubt: 0 },
      { cid: computeCid('tried'), state: 'pin', is_in_doubt: 1 },
      { cid: computeCid('gone'), state: 'unpin', is_in_doubt: expect.any(Number) }
    ]
    expect(rows).toHaveLength(4)
    expect(rows).toEqual(expect.arrayContaining(expected))
  })

  it('copies no sessions, and reports nothing to copy if only sessions exist', async () => {
    mkdirSync(join(folder.path, 'vault'))
    const sessions = openSqliteStore(join(folder.path, 'vault', 'auth.db'))
    const session = { service: 'https://vault.example', sessionId: 'of-vault', did: ANN.did, tokenClaims: undefined }
    const refreshTokenHash = Buffer.alloc(32, 'vault').toString('base64url')
    await sessions.createSession({ ...session, refreshTokenHash, nowSeconds: NOW, expiresAtSeconds: NOW + 3_600 })
    await sessions.close()
    await expect(copy()).rejects.toThrow(`There is nothing to copy: ${folder.path} (DATA_DIR)`)
    const store = await openLocal('vault')
    await store.writeEntry(createEntry('key', 'text'))
    await store.close()
    const { lines } = await copy('--from', folder.path)
    expect(lines).toEqual([
      expect.stringContaining('vault: entries copied: 1 '),
      expect.stringContaining('Not copied: sessions (users have to log in again)')
    ])
    expect(await database.query('SELECT * FROM did_auth_sessions')).toEqual([])
  })

  it('names lost and damaged entries, copies the others, and exits with 1', async () => {
    const store = await openLocal('vault')
    await fillVault(store, 8)
    await store.close()
    const file = openDatabase(join(folder.path, 'vault', 'vault.db'))
    file.exec(
      `DELETE FROM contents WHERE cid = '${computeCid('shared 3')}'; DELETE FROM lists WHERE did = '${BEN.did}' AND key = 'key 1';
       DELETE FROM entries WHERE cid = '${computeCid(`${BEN.did} 2`)}'`
    )
    file.close()
    const { code, lines } = await copy()
    expect(code).toBe(1)
    expect(lines.filter((line) => line.includes('NOT copied'))).toEqual([
      expect.stringContaining(`vault: NOT copied: ${computeCid('shared 3')} is missing or damaged`),
      expect.stringContaining(`vault: NOT copied: the list "key 2" of ${BEN.did} is damaged`),
      expect.stringContaining(`vault: NOT copied: the list "key 1" of ${BEN.did} is damaged`)
    ])
    const { store: target } = await openMoved('vault')
    expect((await target.listEntries({ did: ANN.did, key: 'key 1' })).entries).toHaveLength(2)
    for (const key of ['key 1', 'key 2']) expect((await target.listEntries({ did: BEN.did, key })).entries).toEqual([])
  })

  it('refuses a folder that a server has open', async () => {
    const store = await openLocal('vault')
    await store.writeEntry(createEntry('key', 'text'))
    await expect(copy()).rejects.toThrow(`${join(folder.path, 'vault', 'vault.db')} is in use. Stop the servers first`)
    await store.writeEntry(createEntry('key', 'more'))
    await store.close()
    expect((await copy()).lines[0]).toContain('entries copied: 2 ')
  })
})
