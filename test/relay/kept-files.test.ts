import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextRound } from 'node:timers/promises'
import request from 'supertest'
import { EmbeddedFileStore } from '../../servers/relay/embedded-file-store.js'
import { contentOf } from '../../servers/shared/content/content-blocks.js'
import { openDatabase } from '../../servers/shared/content/database.js'
import { DiskSpace } from '../../servers/shared/content/disk-space.js'
import {
  getFile,
  logIn,
  loginCredential,
  postFile,
  requestChallenge,
  startTestRelay,
  TestClock,
  type TestRelay,
  type TestRelayOptions
} from '../support/relay-app.js'
import { temporaryFolder } from '../support/store-folder.js'
import { walletOf } from '../support/wallet.js'

const DAY_SECONDS = 86_400
/** Of a relay that counted the bytes of texts, and nothing beside them. */
const SCHEMA_OF_TEXTS = `
  CREATE TABLE files (
    cid TEXT NOT NULL,
    place TEXT NOT NULL,
    byte_count INTEGER NOT NULL,
    kept_at INTEGER NOT NULL DEFAULT 0,
    begun_at INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (cid, place)
  ) WITHOUT ROWID;
  CREATE INDEX files_by_time ON files (place, kept_at, begun_at);
  CREATE TABLE totals (bytes INTEGER NOT NULL);
  INSERT INTO totals VALUES (0);
  CREATE TRIGGER files_in AFTER INSERT ON files WHEN new.kept_at > 0 BEGIN
    UPDATE totals SET bytes = bytes + new.byte_count;
  END;
  CREATE TRIGGER files_kept AFTER UPDATE ON files WHEN old.kept_at = 0 AND new.kept_at > 0 BEGIN
    UPDATE totals SET bytes = bytes + new.byte_count;
  END;
  CREATE TRIGGER files_out AFTER DELETE ON files WHEN old.kept_at > 0 BEGIN
    UPDATE totals SET bytes = bytes - old.byte_count;
  END`
const wallet = walletOf(1)
const folder = { path: '', remove: (): void => undefined }
let clock = new TestClock()
let relay: TestRelay

const start = async (env: Record<string, string> = {}, options: TestRelayOptions = {}) => {
  relay = await startTestRelay(env, { clock, folder: folder.path, ...options })
}
const restart = async (env: Record<string, string> = {}) => {
  await relay.end()
  await start(env)
}
const posted = async (file: string) => (await postFile(relay, await logIn(relay, wallet), file)).body.cid as string
const statusOf = async (cid: string) => (await getFile(relay, await logIn(relay, wallet), cid)).status
const rows = (table: string) => relay.database.prepare(`SELECT count(*) FROM ${table}`).pluck().get()

/** Waits until the sweep of the start has left so many files. */
async function sweptTo(files: number): Promise<void> {
  while (rows('files') !== files) await nextRound()
}

beforeEach(async () => {
  Object.assign(folder, temporaryFolder())
  clock = new TestClock()
  await start()
})

afterEach(async () => {
  await relay.end()
  folder.remove()
})

describe('a restart', () => {
  it('brings back every file that may still be fetched, as it was', async () => {
    const old = await posted('old')
    clock.seconds += 10
    const texts = ['', 'a"\\\n\u0000é💥\u2028', 'b'.repeat(700_000)]
    const cids = await Promise.all(texts.map(posted))
    clock.seconds += DAY_SECONDS - 10
    await restart()
    const token = await logIn(relay, wallet)
    for (const [index, cid] of cids.entries()) {
      expect((await getFile(relay, token, cid)).body).toEqual({ file: texts[index] })
    }
    expect(await statusOf(old)).toBe(404)
    clock.seconds += 10
    expect(await statusOf(cids[0]!)).toBe(404)
  })

  it('brings the newest back where not all fit', async () => {
    const cids: string[] = []
    for (const mark of ['1', '2', '3', '4']) {
      cids.push(await posted(mark.repeat(100_000)))
      clock.seconds += 1
    }
    await restart({ RELAY_MAX_MEMORY_BYTES: '250000' })
    expect(await Promise.all(cids.map(statusOf))).toEqual([404, 404, 200, 200])
    // And still lets the least recently used go first.
    await statusOf(cids[2]!)
    await posted('5'.repeat(100_000))
    expect(await Promise.all(cids.map(statusOf))).toEqual([404, 404, 200, 404])
  })

  it('counts what came back for nobody, until it is posted once more', async () => {
    await posted('a'.repeat(100))
    await restart({ RELAY_MAX_BYTES_PER_DID: '100' })
    const token = await logIn(relay, wallet)
    expect((await postFile(relay, token, 'b')).status).toBe(200)
    expect((await postFile(relay, token, 'a'.repeat(100))).status).toBe(507)
  })

  it('leaves out what is damaged, and a new post brings it back', async () => {
    const [good, bad] = [await posted('good'), await posted('bad')]
    relay.database.prepare('UPDATE blocks SET bytes = ? WHERE cid = ?').run(Buffer.from('worse'), bad)
    await restart()
    expect([await statusOf(good), await statusOf(bad)]).toEqual([200, 404])
    expect(await posted('bad')).toBe(bad)
    expect(await statusOf(bad)).toBe(200)
  })

  it('remembers which challenges were used', async () => {
    const jwt = loginCredential(wallet, await requestChallenge(relay, wallet.did))
    await request(relay.listener).post('/auth').send({ jwt }).expect(200)
    await restart()
    const { text } = await request(relay.listener).post('/auth').send({ jwt }).expect(401)
    expect(text).toBe('Invalid challenge response: used')
  })
})

describe('RELAY_STORE_TTL_SECONDS', () => {
  it('is 30 days by default, from the last post on; then blocks and rows go', async () => {
    const once = await posted('once'.repeat(100_000))
    const twice = await posted('twice')
    clock.seconds += 10
    expect(await posted('twice')).toBe(twice)
    expect([rows('files'), rows('blocks')]).toEqual([2, 4])
    clock.seconds += 30 * DAY_SECONDS - 11
    await restart()
    expect([rows('files'), rows('blocks')]).toEqual([2, 4])
    expect(await statusOf(once)).toBe(404)
    clock.seconds += 1
    await restart()
    await sweptTo(1)
    expect([rows('files'), rows('blocks')]).toEqual([1, 1])
    expect(relay.database.prepare('SELECT bytes FROM totals').pluck().get()).toBe(5)
    clock.seconds += 10
    await restart()
    await sweptTo(0)
    expect([rows('files'), rows('blocks')]).toEqual([0, 0])
  })

  it('drops any number of files in one sweep, and makes room for others', async () => {
    await restart({ RELAY_MAX_STORE_BYTES: '52200' })
    const token = await logIn(relay, wallet)
    for (let index = 0; index < 100; index += 1) await postFile(relay, token, `file ${index}`.padEnd(10))
    expect((await postFile(relay, token, 'b')).status).toBe(507)
    clock.seconds += 30 * DAY_SECONDS
    await restart({ RELAY_MAX_STORE_BYTES: '52200' })
    await sweptTo(0)
    expect(await statusOf(await posted('b'.repeat(51_688)))).toBe(200)
    expect((await postFile(relay, await logIn(relay, wallet), '')).status).toBe(507)
  })

  it('keeps blocks that another file has as well', async () => {
    const block = 'a'.repeat(262_144)
    await posted(`${block}b`)
    clock.seconds += 10
    await posted(`${block}c`)
    expect([rows('files'), rows('blocks')]).toEqual([2, 5])
    clock.seconds += 30 * DAY_SECONDS - 10
    await restart()
    await sweptTo(1)
    expect([rows('files'), rows('blocks')]).toEqual([1, 3])
  })
})

describe('a file that is damaged in the store', () => {
  it.each([
    ['changed', "UPDATE blocks SET bytes = x'00'"],
    ['lost', 'DELETE FROM blocks']
  ])('and %s is whole again when it is posted once more', async (_what, damage) => {
    const file = 'a'.repeat(300_000)
    const cid = await posted(file)
    relay.database.exec(damage)
    expect(await posted(file)).toBe(cid)
    expect(rows('blocks')).toBe(3)
    await restart()
    expect((await getFile(relay, await logIn(relay, wallet), cid)).body).toEqual({ file })
    clock.seconds += 30 * DAY_SECONDS
    await restart()
    await sweptTo(0)
    expect(rows('blocks')).toBe(0)
  })
})

describe('RELAY_STORE_TTL_SECONDS', () => {
  it('set to less frees at once what was kept for longer', async () => {
    await posted('hello')
    clock.seconds += 100
    await restart({ RELAY_STORE_TTL_SECONDS: '101' })
    await restart({ RELAY_STORE_TTL_SECONDS: '100' })
    await sweptTo(0)
    expect(rows('blocks')).toBe(0)
  })
})

describe('RELAY_MAX_STORE_BYTES', () => {
  const maxBytes = 1_000_000
  const outcomeOf = (keeping: Promise<void>) => keeping.then(() => 'kept').catch((error: unknown) => String(error))

  it('is what small files take on the disk as well: 6 bytes each do not make the database longer than that', async () => {
    const database = openDatabase(join(folder.path, 'small.db'))
    const store = new EmbeddedFileStore(database, { ttlSeconds: 100, maxBytes })
    const files = Array.from({ length: 2_000 }, (_, number) => Buffer.from(`${100_000 + number}`))
    const outcomes = await Promise.all(files.map((file) => outcomeOf(store.keep(contentOf(file), file, 1))))
    database.close()
    expect(outcomes.filter((outcome) => outcome === 'kept')).toHaveLength(1_930)
    expect(outcomes.at(-1)).toContain('Storage full: 999740 of 1000000 bytes in use by all, 518 needed')
    expect(statSync(join(folder.path, 'small.db')).size).toBeLessThan(maxBytes)
  })

  it('counts what a relay kept that counted only texts, and lets go of as much with it', async () => {
    const kept = ['one', 'two', 'three', 'four'].map((file) => contentOf(Buffer.from(file)))
    const file = join(folder.path, 'old.db')
    const old = openDatabase(file)
    old.exec(SCHEMA_OF_TEXTS)
    const keep = old.prepare("INSERT INTO files (cid, place, byte_count, kept_at) VALUES (?, 'here', ?, ?)")
    for (const [index, { cid, byteCount }] of kept.entries()) keep.run(cid, byteCount, 11_000 + index)
    old.close()

    const database = openDatabase(file)
    const options = { ttlSeconds: 100, maxBytes: 4 * 512 + 15 }
    const more = Buffer.from('more')
    const open = () => new EmbeddedFileStore(database, options)
    const { signal } = new AbortController()
    try {
      // Counted once, not at each start.
      const full = 'Storage full: 2063 of 2063 bytes in use by all, 516 needed'
      for (const store of [open(), open()])
        expect(await outcomeOf(store.keep(contentOf(more), more, 11_050))).toContain(full)
      await open().sweep(11_103, signal)
      expect(await outcomeOf(open().keep(contentOf(more), more, 11_103))).toBe('kept')
      await open().sweep(11_203, signal)
      expect(database.prepare('SELECT bytes, files FROM totals, counts').get()).toEqual({ bytes: 0, files: 0 })
    } finally {
      database.close()
    }
  })
})

describe('the disk', () => {
  it('of which more than 90 % are used takes no more, and what is there can be fetched', async () => {
    let [percent, nowMilliseconds] = [90, 0]
    const disk = new DiskSpace(
      () => Promise.resolve(percent),
      () => (nowMilliseconds += 1_000)
    )
    await relay.end()
    await start(
      {},
      { files: (database) => new EmbeddedFileStore(database, { ttlSeconds: 100, maxBytes: 10_000 }, disk) }
    )
    const cid = await posted('kept')
    percent = 90.1
    const { status, text } = await postFile(relay, await logIn(relay, wallet), 'more')
    expect([status, text]).toEqual([507, 'Storage full: 90 % of the disk used, at most 90 %'])
    expect([rows('files'), await statusOf(cid)]).toEqual([1, 200])
    percent = 90
    await posted('more')
  })
})

describe('the database', () => {
  it('holds neither the DID of a user nor a token', async () => {
    const token = await logIn(relay, wallet)
    await postFile(relay, token, 'hello')
    relay.database.pragma('wal_checkpoint(TRUNCATE)')
    const bytes = Buffer.concat(readdirSync(folder.path).map((name) => readFileSync(`${folder.path}/${name}`)))
    expect(bytes.includes('hello')).toBe(true)
    for (const secret of [wallet.did.slice(-40), token, token.split('.')[2]!])
      expect(bytes.includes(secret)).toBe(false)
  })
})
