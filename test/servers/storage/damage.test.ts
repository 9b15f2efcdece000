import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { readdirSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chooseSqliteEngine, openSqliteConnection } from '../../../src/stores/sqlite/index.js'
import {
  cidOf,
  did,
  entryOf,
  fileOf,
  largeBytes,
  newContent,
  NOW,
  objectNames,
  sqliteFolder,
  textOf,
  textsOf,
  type SqliteFolder,
  type TestStore
} from '../../support/content-stores.js'

const place = { did, key: 'k' }
const large = largeBytes('large', 700_000)
const missing = { code: 'ERR_CONTENT_MISSING', status: 502 }
const damaged = { code: 'ERR_STORAGE', status: 503 }

let files: SqliteFolder
let store: TestStore
beforeEach(async () => {
  files = sqliteFolder()
  store = await files.open()
})
afterEach(() => files.remove())

/** Changes the database beside the store. */
function sql(text: string): void {
  const connection = openSqliteConnection(files.file, chooseSqliteEngine(), {
    synchronous: 'OFF',
    busyMilliseconds: 1_000
  })
  connection.exec(text)
  connection.close()
}

function flip(file: string, offset: number): void {
  const bytes = readFileSync(file)
  bytes[offset]! ^= 1
  writeFileSync(file, bytes)
}

async function objectFile(): Promise<string> {
  const [name = ''] = await objectNames(files.objects)
  return join(files.folder, 'objects', name.slice(-2), name)
}

const content = async (bytes: string | Uint8Array) => (await store.readContents([cidOf(bytes)]))[0]!

describe('an object', () => {
  beforeEach(async () => {
    await store.writeEntry(entryOf('k', large))
  })

  it('damaged in its first piece is an answer', async () => {
    flip(await objectFile(), 262_143)
    await expect((await content(large)).pieces()).rejects.toMatchObject(missing)
    await expect((await content(large)).bytes()).rejects.toMatchObject(missing)
  })

  it('damaged later breaks off before the damaged piece', async () => {
    flip(await objectFile(), 600_000)
    let byteCount = 0
    const read = async (): Promise<void> => {
      for await (const piece of await (await content(large)).pieces()) byteCount += piece.length
    }
    await expect(read()).rejects.toMatchObject(missing)
    expect(byteCount).toBe(524_288)
  })

  it.each([0, 262_144, 699_999])('that ends after %d bytes is missing', async (size) => {
    truncateSync(await objectFile(), size)
    await expect((await content(large)).bytes()).rejects.toMatchObject(missing)
  })

  it('that is gone is missing', async () => {
    rmSync(await objectFile())
    await expect((await content(large)).pieces()).rejects.toMatchObject(missing)
  })

  it.each(['written again', 'posted as a file', 'put back'] as const)(
    'is whole when its content is %s',
    async (how) => {
      flip(await objectFile(), 600_000)
      if (how === 'written again') await store.writeEntry(entryOf('k', large))
      else if (how === 'posted as a file') await store.writeFile(fileOf(large))
      else await store.repairContent(newContent(large))
      expect(await textOf(await content(large))).toBe(String(large))
      await store.collectGarbage(NOW)
      expect(await objectNames(files.objects)).toHaveLength(1)
    }
  )
})

describe('a row', () => {
  beforeEach(async () => {
    await store.writeEntry(entryOf('k', 'small'))
    await store.writeEntry(entryOf('k', large))
  })

  it('with other bytes is missing, and whole when its content is written again', async () => {
    sql(`UPDATE contents SET bytes = CAST('smalL' AS BLOB) WHERE object IS NULL`)
    await expect((await content('small')).bytes()).rejects.toMatchObject(missing)
    await store.writeEntry(entryOf('other', 'small'))
    expect(await textOf(await content('small'))).toBe('small')
  })

  it.each(['leaf_hashes = zeroblob(96)', 'leaf_hashes = zeroblob(32)', 'byte_count = byte_count - 1'])(
    'of an object with %s is missing',
    async (change) => {
      sql(`UPDATE contents SET ${change} WHERE object IS NOT NULL`)
      await expect((await content(large)).pieces()).rejects.toMatchObject(missing)
      await store.writeEntry(entryOf('k', large))
      expect(await textOf(await content(large))).toBe(String(large))
    }
  )
})

describe('an index', () => {
  it.each([
    'DELETE FROM entries WHERE number = 1',
    'UPDATE entries SET json_byte_count = json_byte_count + 1 WHERE number = 1',
    'UPDATE entries SET byte_count = byte_count + 1 WHERE number = 1',
    "UPDATE entries SET key = 'l' WHERE number = 1",
    "UPDATE entries SET cid = 'bafkreia' WHERE number = 1",
    'DELETE FROM lists',
    'UPDATE lists SET entry_count = 1',
    "UPDATE lists SET key = 'l'",
    "UPDATE owners SET did = 'did:ethr:rsk:0xc'",
    'DELETE FROM owners'
  ])('after %s is an error, and never a shorter list', async (change) => {
    await store.writeEntry(entryOf('k', 'a'))
    await store.writeEntry(entryOf('k', 'b'))
    sql(change)
    await expect(store.listEntries(place)).rejects.toMatchObject(damaged)
    await expect(store.listOwnEntries(did)).rejects.toMatchObject(damaged)
  })
})

describe('a database file', () => {
  it('with any byte flipped gives the right content or an error', async () => {
    const texts = Array.from({ length: 30 }, (_, number) => `content ${number} `.repeat(20))
    for (const text of texts) await store.writeEntry(entryOf('k', text))
    await store.close()
    const whole = readFileSync(files.file)
    for (let round = 0; round < 24; round += 1) {
      const bytes = Buffer.from(whole)
      const offset = Math.floor((whole.length / 24) * round + ((round * 997) % (whole.length / 24)))
      bytes[offset]! ^= 1 << (round % 8)
      for (const name of readdirSync(files.folder)) if (/-(wal|shm)$/.test(name)) rmSync(join(files.folder, name))
      writeFileSync(files.file, bytes)
      const outcome = await readAll().catch((error: unknown) => error)
      // Content that is not found is an error to those who read a list of it.
      const isError = outcome instanceof Error || (outcome as string[]).includes('missing')
      if (!isError) expect(outcome).toEqual(texts)
    }

    async function readAll(): Promise<string[]> {
      const opened = await files.open()
      try {
        return await textsOf(opened, 'k')
      } finally {
        await opened.close()
      }
    }
  })

  it('that is damaged is written to no more, and the store is not ready', async () => {
    for (let number = 0; number < 100; number += 1)
      await store.writeEntry(entryOf(`key ${number}`, `${number} `.repeat(50)))
    await store.close()
    const root = openSqliteConnection(files.file, chooseSqliteEngine(), { synchronous: 'OFF', busyMilliseconds: 1_000 })
    const { rootpage } = root.prepare("SELECT rootpage FROM sqlite_master WHERE name = 'entries'").get()!
    root.close()
    const bytes = readFileSync(files.file)
    bytes.fill(0xff, (Number(rootpage) - 1) * 4_096, Number(rootpage) * 4_096)
    writeFileSync(files.file, bytes)
    store = await files.open()
    await store.probe()
    await expect(store.listEntries({ did, key: 'key 1' })).rejects.toMatchObject(damaged)
    await expect(store.probe()).rejects.toMatchObject(damaged)
    await expect(store.writeFile(fileOf('b'))).rejects.toMatchObject(damaged)
  })

  it('that another version made is refused, with both numbers', async () => {
    await store.close()
    const file = openSqliteConnection(files.file, chooseSqliteEngine(), { synchronous: 'OFF', busyMilliseconds: 1_000 })
    file.exec("UPDATE numbers SET number = 2 WHERE name = 'version'")
    file.close()
    await expect(files.open()).rejects.toThrow('The database has tables of version 2, this server knows 1')
  })

  it('that was moved or deleted under the store is 503 for every write, and the store is not ready', async () => {
    await store.writeEntry(entryOf('k', 'a'))
    renameSync(files.folder, `${files.folder}-moved`)
    await expect(store.probe()).rejects.toMatchObject(damaged)
    await expect(store.writeEntry(entryOf('k', 'b'))).rejects.toMatchObject(damaged)
    await expect(store.removeEntries(place)).rejects.toMatchObject(damaged)
    expect(await textsOf(store, 'k')).toEqual(['a'])
    renameSync(`${files.folder}-moved`, files.folder)
    await store.probe()
  })
})
