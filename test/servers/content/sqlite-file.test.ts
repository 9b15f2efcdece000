import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  chooseSqliteEngine,
  openSqliteConnection,
  type SqliteConnection,
  type SqlQuery
} from 'express-did-auth/server-kit'
import { sqliteContents } from '../../../servers/content/sql/content-dialect.js'
import { storedBytes } from '../../../servers/content/sql/file-verbs.js'
import { takeDownStep } from '../../../servers/content/sql/garbage-verbs.js'
import {
  computeCid,
  did,
  createEntry,
  createFile,
  createLargeBytes,
  NOW,
  sqliteFolder,
  readTexts,
  type SqliteFolder,
  type TestStore
} from '../../support/servers/content-stores.js'

const place = { did, key: 'k' }
const storageError = { code: 'ERR_STORAGE', status: 503 }

let files: SqliteFolder
let store: TestStore
beforeEach(async () => {
  files = sqliteFolder()
  store = await files.open()
})
afterEach(() => files.remove())

/** Opens a second connection, as another process would. */
function connect(): SqliteConnection {
  return openSqliteConnection(files.file, chooseSqliteEngine(), { synchronous: 'NORMAL', busyMilliseconds: 1_000 })
}

const inSqlite = (query: SqlQuery) => Object.assign(query, { dialect: sqliteContents })

describe('a takedown', () =>
  it('fails if any of its statements fails, including one that overwrites deleted content', async () => {
    const failure = new Error('the statement failed')
    /** Runs a step on an empty database with one failing statement. */
    const run = async (failing: number): Promise<{ outcome: unknown; sent: number }> => {
      let sent = 0
      const query: SqlQuery = () => {
        if (sent++ !== failing) return Promise.resolve({ rows: [], rowCount: 0, isRepeat: false })
        const failed = new Promise<never>((_resolve, reject) => setImmediate(() => reject(failure)))
        failed.catch(() => undefined)
        return failed
      }
      const outcome = await takeDownStep.run(inSqlite(query), computeCid('a'), NOW).catch((error: unknown) => error)
      return { outcome, sent }
    }
    const { outcome, sent } = await run(-1)
    expect(outcome).toMatchObject({ isDone: true })
    for (let failing = 0; failing < sent; failing += 1) expect((await run(failing)).outcome).toBe(failure)
  }))

describe('the sum of all stored bytes', () =>
  it('does not read all contents', async () => {
    const otherProcess = connect()
    const plan: string[] = []
    const explain: SqlQuery = ({ text }) => {
      plan.push(
        ...otherProcess
          .prepare(`EXPLAIN QUERY PLAN ${text}`)
          .all()
          .map(({ detail }) => String(detail))
      )
      return Promise.resolve({ rows: [], rowCount: 0, isRepeat: false })
    }
    await storedBytes.run(inSqlite(explain))
    otherProcess.close()
    expect(plan).toContainEqual(expect.stringMatching(/^SEARCH c /))
    expect(plan).not.toContainEqual(expect.stringMatching(/^SCAN c\b/))
  }))

describe('a content store whose database another process writes to', () => {
  it('reads on, and writes once the other process has ended its transaction', async () => {
    await store.writeEntry(createEntry('k', 'a'))
    const otherProcess = connect()
    otherProcess.exec('BEGIN IMMEDIATE')
    let isWritten = false
    const written = store.writeEntry(createEntry('k', 'b')).then(() => (isWritten = true))
    await new Promise(setImmediate)
    expect(await readTexts(store, 'k')).toEqual(['a'])
    expect(isWritten).toBe(false)
    otherProcess.exec('COMMIT')
    otherProcess.close()
    await written
    expect(await readTexts(store, 'k')).toEqual(['a', 'b'])
  })

  it('fails with 503 after 4 s', async () => {
    const otherProcess = connect()
    otherProcess.exec('BEGIN IMMEDIATE')
    await expect(store.writeEntry(createEntry('k', 'b'))).rejects.toMatchObject(storageError)
    otherProcess.exec('ROLLBACK')
    otherProcess.close()
    await store.writeEntry(createEntry('k', 'c'))
    expect(await readTexts(store, 'k')).toEqual(['c'])
  })
})

describe('lists of a damaged database file', () =>
  it.each([
    "UPDATE entries SET cid = 'bafkreia' WHERE number = 1",
    "UPDATE owners SET did = 'did:ethr:rsk:0xc'",
    'DELETE FROM owners'
  ])('fail after %s, and are never shorter', async (change) => {
    await store.writeEntry(createEntry('k', 'a'))
    await store.writeEntry(createEntry('k', 'b'))
    await files.query(change)
    await expect(store.listEntries(place)).rejects.toMatchObject(storageError)
    await expect(store.listOwnEntries(did)).rejects.toMatchObject(storageError)
  }))

describe('a database file', () => {
  it('returns correct content or an error if any byte is flipped', async () => {
    const texts = Array.from({ length: 30 }, (_, number) => `content ${number} `.repeat(20))
    for (const text of texts) await store.writeEntry(createEntry('k', text))
    await store.close()
    const whole = readFileSync(files.file)
    for (let round = 0; round < 24; round += 1) {
      const bytes = Buffer.from(whole)
      const offset = Math.floor((whole.length / 24) * round + ((round * 997) % (whole.length / 24)))
      bytes[offset]! ^= 1 << (round % 8)
      for (const name of readdirSync(files.folder)) if (/-(wal|shm)$/.test(name)) rmSync(join(files.folder, name))
      writeFileSync(files.file, bytes)
      const outcome = await readAll().catch((error: unknown) => error)
      // Missing content is an error for readers of its list.
      const isError = outcome instanceof Error || (outcome as string[]).includes('missing')
      if (!isError) expect(outcome).toEqual(texts)
    }

    async function readAll(): Promise<string[]> {
      const opened = await files.open()
      try {
        return await readTexts(opened, 'k')
      } finally {
        await opened.close()
      }
    }
  })

  it('accepts no writes once damage was found, and the store is not ready', async () => {
    for (let number = 0; number < 100; number += 1)
      await store.writeEntry(createEntry(`key ${number}`, `${number} `.repeat(50)))
    await store.close()
    const [root] = await files.query("SELECT rootpage FROM sqlite_master WHERE name = 'entries'")
    const bytes = readFileSync(files.file)
    bytes.fill(0xff, (Number(root!.rootpage) - 1) * 4_096, Number(root!.rootpage) * 4_096)
    writeFileSync(files.file, bytes)
    store = await files.open()
    await store.probe()
    await expect(store.listEntries({ did, key: 'key 1' })).rejects.toMatchObject(storageError)
    await expect(store.probe()).rejects.toMatchObject(storageError)
    await expect(store.writeFile(createFile('b'))).rejects.toMatchObject(storageError)
  })

  it('is refused with both version numbers if another version created it', async () => {
    await store.close()
    await files.query("UPDATE numbers SET number = 2 WHERE name = 'version'")
    await expect(files.open()).rejects.toThrow('the database has tables of version 2, not 1')
  })

  it('refuses writes with 503 after it was moved or deleted, and the store is not ready', async () => {
    await store.writeEntry(createEntry('k', 'a'))
    expect(await readTexts(store, 'k')).toEqual(['a'])
    renameSync(files.folder, `${files.folder}-moved`)
    await expect(store.probe()).rejects.toMatchObject(storageError)
    await expect(store.writeEntry(createEntry('k', 'b'))).rejects.toMatchObject(storageError)
    await expect(store.removeEntries(place)).rejects.toMatchObject(storageError)
    expect(await readTexts(store, 'k')).toEqual(['a'])
    renameSync(`${files.folder}-moved`, files.folder)
    await store.probe()
  })
})

describe('a takedown in a database file', () => {
  const secret = 'a secret that has to go '

  /** Finds the files that contain these bytes. */
  function findFilesWith(bytes: string): string[] {
    return readdirSync(files.folder, { recursive: true })
      .map(String)
      .filter((name) => {
        const path = join(files.folder, name)
        return statSync(path).isFile() && readFileSync(path).includes(bytes)
      })
  }

  it.each([100, 30_000, 300_000])('leaves none of %d bytes in any file', async (size) => {
    for (let number = 0; number < 20; number += 1)
      await store.writeEntry(createEntry('others', `other ${number} `.repeat(300)))
    const content = secret.repeat(size).slice(0, size)
    await store.writeEntry(createEntry('k', content))
    for (let number = 0; number < 10; number += 1) {
      await store.removeEntries({ did, key: 'others', cid: computeCid(`other ${number} `.repeat(300)) })
    }
    expect(findFilesWith(secret)).not.toEqual([])
    expect(await store.takeDown(computeCid(content), 'order', NOW)).toEqual({ removed: 1, remains: [] })
    expect(findFilesWith(secret)).toEqual([])
    expect(await readTexts(store, 'others')).toHaveLength(10)
  })

  it('leaves no byte of content that was removed earlier', async () => {
    const large = createLargeBytes(secret)
    await store.writeEntry(createEntry('k', secret))
    await store.writeEntry(createEntry('large', large))
    await store.removeEntries({ did, key: 'k' })
    expect(await store.takeDown(computeCid(secret), 'order', NOW)).toEqual({ removed: 0, remains: [] })
    expect(await store.takeDown(computeCid(large), 'order', NOW)).toEqual({ removed: 1, remains: [] })
    expect(findFilesWith(secret.slice(0, 20))).toEqual([])
  })

  it('names a file that is being read, which may still contain bytes', async () => {
    await store.writeEntry(createEntry('k', secret))
    const reader = connect()
    reader.exec('BEGIN')
    reader.prepare('SELECT * FROM contents').all()
    const { removed, remains } = await store.takeDown(computeCid(secret), 'order', NOW)
    expect(removed).toBe(1)
    expect(remains).toContain(`${files.file}-wal was not emptied: another process reads it`)
    reader.exec('COMMIT')
    reader.close()
    expect(await store.takeDown(computeCid(secret), 'order', NOW)).toEqual({ removed: 0, remains: [] })
    expect(findFilesWith(secret)).toEqual([])
  })
})
