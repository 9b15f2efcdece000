import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { openContentStore } from '../../../servers/storage/sqlite/open-content-store.js'
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
  type SqliteFolder
} from '../../support/content-stores.js'
import { oldRelay, oldVault, type OldEntry } from '../../support/old-databases.js'

const other = 'did:ethr:rsk:0xb'
const [large, larger] = [largeBytes('large', 700_000), largeBytes('larger', 300_000)]
/** All leaves but the last of the two are one block. */
const [same, alsoSame] = [Buffer.alloc(600_000, 'a'), Buffer.alloc(800_000, 'a')]

const entries: OldEntry[] = [
  [did, 'k', 'a'],
  [did, 'k', large],
  [did, 'k', 'b"'],
  [other, 'k', 'a'],
  [other, 'same', same],
  [other, 'same', alsoSame],
  [did, 'k', larger],
  [did, 'empty', '']
]

let files: SqliteFolder
beforeEach(() => {
  files = sqliteFolder()
})
afterEach(() => files.remove())

const rows = (query: string): unknown[] => {
  const connection = openSqliteConnection(files.file, chooseSqliteEngine(), {
    synchronous: 'OFF',
    busyMilliseconds: 1_000
  })
  try {
    return connection
      .prepare(query)
      .all()
      .map((row) => Object.values(row)[0])
  } finally {
    connection.close()
  }
}

describe('a vault of before the content store', () => {
  it('has all of its entries, with their order, sizes and owners', async () => {
    oldVault(files.file, entries)
    const store = await files.open()
    expect(await textsOf(store, 'k')).toEqual(['a', String(large), 'b"', String(larger)])
    expect(await textsOf(store, 'same', other)).toEqual([String(same), String(alsoSame)])
    expect(await store.usageOf(did)).toEqual({ byteCount: 1_000_003, entryCount: 5 })
    const { entries: listed } = await store.listEntries({ did, key: 'k' })
    expect(listed.map(({ jsonByteCount }) => jsonByteCount)).toEqual([3, 700_002, 5, 300_002])
    expect(await objectNames(files.objects)).toHaveLength(4)
    expect(rows("SELECT name FROM sqlite_master WHERE name = 'blocks'")).toEqual([])
  })

  it('is written to as any other, and opened again as it is', async () => {
    oldVault(files.file, entries)
    const store = await files.open()
    const { etag } = await store.listEntries({ did, key: 'k' })
    await store.writeEntry(entryOf('k', 'new', { ifMatch: [etag] }))
    await store.removeEntries({ did: other, key: 'same', cid: cidOf(same) })
    const again = await files.open()
    expect(await textsOf(again, 'k')).toEqual(['a', String(large), 'b"', String(larger), 'new'])
    expect(await textsOf(again, 'same', other)).toEqual([String(alsoSame)])
  })

  it('keeps what its pins have to do; what was open counts as under way', async () => {
    oldVault(
      files.file,
      entries,
      `INSERT INTO vault_pins (cid, state, attempts, is_doubtful, retry_at_seconds) VALUES
        ('${cidOf('a')}', 'pinned', 0, 0, 0), ('${cidOf('b"')}', 'pin', 3, 0, ${NOW + 9}), ('${cidOf('gone')}', 'unpin', 0, 1, 0)`
    )
    const store = await files.open({ tracksPins: true })
    expect(await store.areSettled([cidOf('a')])).toBe(true)
    const request = { limit: 10, leaseSeconds: 30 }
    expect(await store.claim({ ...request, nowSeconds: NOW })).toEqual([
      expect.objectContaining({ cid: cidOf('gone'), desired: 'unpinned', isInDoubt: true })
    ])
    expect(await store.claim({ ...request, nowSeconds: NOW + 9 })).toEqual([
      expect.objectContaining({ cid: cidOf('b"'), desired: 'pinned', isInDoubt: true, attempts: 3 })
    ])
  })

  it('keeps the entries of damaged content, and its blocks, until that is repaired', async () => {
    const firstLeaf = cidOf(large.subarray(0, 262_144))
    oldVault(files.file, entries, `UPDATE blocks SET bytes = x'00' WHERE cid = '${firstLeaf}'`)
    const { store, takenOver } = await openContentStore({ folder: files.folder, database: 'vault.db' })
    expect(takenOver).toEqual({ movedCount: 6, damagedCids: [cidOf(large)] })
    const { etag, entries: listed } = await store.listEntries({ did, key: 'k' })
    const contents = await store.readContents(listed.map(({ cid }) => cid))
    expect(contents.map((content) => content !== undefined)).toEqual([true, false, true, true])
    expect(rows('SELECT count(*) FROM blocks')[0]).toBeGreaterThan(0)
    await store.repairContent(newContent(large))
    expect(await textOf((await store.readContents([cidOf(large)]))[0])).toBe(String(large))
    const after = await store.listEntries({ did, key: 'k' })
    expect(after.entries[1]).toMatchObject({ jsonByteCount: 700_002 })
    expect(after.etag).not.toBe(etag)
    await store.close()
    await files.open()
    expect(rows("SELECT name FROM sqlite_master WHERE name = 'blocks'")).toEqual([])
  })

  it('is taken over once by two stores that are opened together', async () => {
    oldVault(files.file, entries)
    const [store, another] = await Promise.all([files.open(), files.open()])
    expect(await textsOf(store, 'k')).toEqual(await textsOf(another, 'k'))
    expect(await textsOf(store, 'same', other)).toEqual([String(same), String(alsoSame)])
    await store.collectGarbage(NOW)
    expect(await objectNames(files.objects)).toHaveLength(4)
  })

  it('is refused by a server of before', async () => {
    oldVault(files.file, entries)
    await files.open()
    expect(rows('SELECT version FROM vault_version')).toEqual([2])
  })
})

describe('a relay of before the content store', () => {
  it('has its files until they expire, and what is on its node to unpin', async () => {
    oldRelay(files.file, [
      ['a', 'here', NOW - 100],
      [large, 'here', NOW],
      ['on the node', 'node', NOW - 10],
      ['begun', 'node', 0]
    ])
    const store = await files.open({ oldFileTtlSeconds: 1_000 })
    expect(await store.findFile(cidOf('a'), NOW)).toEqual({
      cid: cidOf('a'),
      byteCount: 1,
      jsonByteCount: 3,
      expiresAtSeconds: NOW + 900
    })
    const contents = await store.readContents([cidOf('a'), cidOf(large), cidOf('on the node')])
    expect(await Promise.all(contents.map(textOf))).toEqual(['a', String(large), 'missing'])
    expect(await store.findFile(cidOf('on the node'), NOW)).toMatchObject({ expiresAtSeconds: NOW + 990 })
    await store.repairContent(newContent('on the node'))
    expect(await store.findFile(cidOf('on the node'), NOW)).toMatchObject({ jsonByteCount: 13 })
    const tasks = await store.claim({ limit: 10, nowSeconds: NOW, leaseSeconds: 30 })
    expect(tasks).toEqual([expect.objectContaining({ cid: cidOf('begun'), desired: 'unpinned', isInDoubt: true })])
    files.clocks.advance(1_000)
    await store.deleteExpiredFiles(files.clocks.seconds)
    expect(await store.areSettled([cidOf('on the node')])).toBe(false)
  })

  it('counts what is there for its bounds', async () => {
    oldRelay(files.file, [['a', 'here', NOW]])
    const store = await files.open()
    const bounds = { maxStoreBytes: 1_000, maxBytesPerDid: 1_000, slotSeconds: 100 }
    await expect(store.writeFile(fileOf('b', { bounds }))).rejects.toMatchObject({
      message: 'Storage full: 513 of 1000 bytes in use by all, 513 needed'
    })
  })
})

describe('a file of a later version', () => {
  it('is refused with a sentence', async () => {
    await (await files.open()).close()
    const connection = openSqliteConnection(files.file, chooseSqliteEngine(), {
      synchronous: 'OFF',
      busyMilliseconds: 1_000
    })
    connection.exec("UPDATE numbers SET number = 3 WHERE name = 'version'")
    connection.close()
    await expect(files.open()).rejects.toThrow('The database has tables of version 3, this server knows 2')
  })
})
