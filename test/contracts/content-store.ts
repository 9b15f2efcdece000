import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ObjectStore } from '../../servers/storage/content-store.js'
import {
  cidOf,
  did,
  entryOf,
  fileOf,
  largeBytes,
  newContent,
  NOW,
  objectNames,
  textOf,
  textsOf,
  type ContentFolder,
  type TestStore
} from '../support/content-stores.js'

/** What every ContentStore does. Two stores share everything, as two instances of a server do. */
export function contentStoreContract(makeFolder: () => ContentFolder | Promise<ContentFolder>): void {
  let files: ContentFolder
  let store: TestStore
  let another: TestStore
  beforeEach(async () => {
    files = await makeFolder()
    store = await files.open()
    another = await files.open()
  })
  afterEach(() => files.remove())

  const place = { did, key: 'k' }
  /** The objects of all stores, with verbs of a test's own. */
  const objectsWith = (verbs: Partial<ObjectStore>): ObjectStore => ({
    put: (name, file) => files.objects.put(name, file),
    read: (name) => files.objects.read(name),
    delete: (name, how) => files.objects.delete(name, how),
    list: () => files.objects.list(),
    ...verbs
  })
  const refusal = (promise: Promise<unknown>): Promise<unknown> =>
    promise.then(
      () => 'done',
      (error: unknown) => error
    )

  describe('entries', () => {
    it('are listed in the order in which they were written, also by another instance', async () => {
      await store.writeEntry(entryOf('k', 'a'))
      await another.writeEntry(entryOf('k', 'b'))
      await store.writeEntry(entryOf('k', 'c'))
      expect(await textsOf(another, 'k')).toEqual(['a', 'b', 'c'])
    })

    it('tell their sizes in bytes', async () => {
      const { etag } = await store.writeEntry(entryOf('k', 'a"é'))
      const entry = { cid: cidOf('a"é'), byteCount: 4 }
      expect(await store.listEntries(place)).toMatchObject({ etag, entries: [entry] })
      expect(await store.listOwnEntries(did)).toMatchObject([{ key: 'k', ...entry }])
    })

    it('are none where nothing was written, with the ETag that a removal of all leaves behind', async () => {
      const empty = await store.listEntries(place)
      expect(empty.entries).toEqual([])
      await store.writeEntry(entryOf('k', 'a'))
      expect(await store.removeEntries(place)).toMatchObject({ etag: empty.etag })
    })

    it('of a user and key are those of no other', async () => {
      await store.writeEntry(entryOf('k', 'a'))
      await store.writeEntry(entryOf('k', 'b', { did: 'did:ethr:rsk:0xb' }))
      await store.writeEntry(entryOf('K', 'c'))
      expect(await textsOf(store, 'k')).toEqual(['a'])
      expect(await textsOf(store, 'k', 'did:ethr:rsk:0xb')).toEqual(['b'])
    })

    it('stay as they are when the same content is written again', async () => {
      await store.writeEntry(entryOf('k', 'a'))
      const { etag } = await store.writeEntry(entryOf('k', 'b'))
      expect(await another.writeEntry(entryOf('k', 'a'))).toMatchObject({ etag })
      expect(await textsOf(store, 'k')).toEqual(['a', 'b'])
    })

    it.each([
      { replaces: 'all', written: 'x', left: ['x'] },
      { replaces: 'all', written: 'b', left: ['b'] },
      { replaces: { cid: cidOf('a') }, written: 'x', left: ['b', 'x'] },
      { replaces: { cid: cidOf('a') }, written: 'b', left: ['b'] },
      { replaces: { cid: cidOf('a') }, written: 'a', left: ['b', 'a'] },
      { replaces: { cid: cidOf('unknown') }, written: 'x', left: ['a', 'b', 'x'] }
    ] as const)('a and b are $left once $written replaced $replaces', async ({ replaces, written, left }) => {
      await store.writeEntry(entryOf('k', 'a'))
      await store.writeEntry(entryOf('k', 'b'))
      const { etag } = await store.writeEntry(entryOf('k', written, { replaces }))
      expect(await textsOf(another, 'k')).toEqual(left)
      expect((await store.listEntries(place)).etag).toBe(etag)
      expect(await store.usageOf(did)).toEqual({ byteCount: left.length, entryCount: left.length })
    })

    it('keep their ETag when the last one is replaced by itself', async () => {
      await store.writeEntry(entryOf('k', 'a'))
      const { etag } = await store.writeEntry(entryOf('k', 'b'))
      expect(await store.writeEntry(entryOf('k', 'b', { replaces: { cid: cidOf('b') } }))).toMatchObject({ etag })
    })

    it('go one by one, and what is not there is removed as well', async () => {
      await store.writeEntry(entryOf('k', 'a'))
      await store.writeEntry(entryOf('k', 'b'))
      await store.removeEntries({ ...place, cid: cidOf('a') })
      const { etag } = await store.removeEntries({ ...place, cid: cidOf('unknown') })
      expect((await store.listEntries(place)).etag).toBe(etag)
      await store.removeEntries({ did: 'did:ethr:rsk:0xb', key: 'k' })
      expect(await textsOf(store, 'k')).toEqual(['b'])
    })

    it('of many writes at once by two instances are all there', async () => {
      const texts = Array.from({ length: 50 }, (_, number) => `text ${number}`)
      await Promise.all(texts.map((text, number) => (number % 2 ? store : another).writeEntry(entryOf('k', text))))
      expect((await textsOf(store, 'k')).sort()).toEqual(texts.sort())
      expect(await store.usageOf(did)).toMatchObject({ entryCount: 50 })
    })
  })

  describe('conditions', () => {
    it.each([
      { has: [], ifMatch: '*', isMet: false },
      { has: ['a'], ifMatch: '*', isMet: true },
      { has: [], ifNoneMatch: '*', isMet: true },
      { has: ['a'], ifNoneMatch: '*', isMet: false }
    ] as const)('of a write to $has: %j', async ({ has, isMet, ...condition }) => {
      for (const text of has) await store.writeEntry(entryOf('k', text))
      const before = await store.listEntries(place)
      const failure = expect.objectContaining({ code: 'ERR_PRECONDITION', status: 412, etag: before.etag })
      expect(await refusal(store.writeEntry(entryOf('k', 'new', condition)))).toEqual(isMet ? 'done' : failure)
      expect(await textsOf(store, 'k')).toEqual(isMet ? [...has, 'new'] : has)
    })

    it('name the ETag of the list as it is, and of a removal as well', async () => {
      const first = await store.writeEntry(entryOf('k', 'a'))
      const second = await store.writeEntry(entryOf('k', 'b', { ifMatch: ['"x"', first.etag] }))
      const failure = { code: 'ERR_PRECONDITION', etag: second.etag }
      await expect(store.writeEntry(entryOf('k', 'c', { ifMatch: [first.etag] }))).rejects.toMatchObject(failure)
      await expect(store.removeEntries({ ...place, ifMatch: [first.etag] })).rejects.toMatchObject(failure)
      await store.removeEntries({ ...place, ifMatch: [second.etag] })
      expect(await textsOf(store, 'k')).toEqual([])
    })

    it('let one of twenty writes pass that name the same ETag', async () => {
      const { etag } = await store.writeEntry(entryOf('k', 'a'))
      const writes = Array.from({ length: 20 }, (_, number) =>
        refusal((number % 2 ? store : another).writeEntry(entryOf('k', `text ${number}`, { ifMatch: [etag] })))
      )
      expect((await Promise.all(writes)).filter((outcome) => outcome === 'done')).toHaveLength(1)
      expect(await textsOf(store, 'k')).toHaveLength(2)
    })
  })

  describe('the quota', () => {
    const quota = { maxBytes: 10, maxEntries: 3 }

    it('refuses the byte that is too many, with the numbers, and stores nothing', async () => {
      await store.writeEntry(entryOf('k', '12345', { quota }))
      await store.writeEntry(entryOf('k', '67890', { quota }))
      expect(await refusal(store.writeEntry(entryOf('k', '!', { quota })))).toMatchObject({
        code: 'ERR_STORAGE_FULL',
        status: 507,
        message: 'Storage full: 11 bytes with this, at most 10'
      })
      expect(await store.readContents([cidOf('!')])).toEqual([undefined])
    })

    it('refuses the entry that is too many, and lets one take the place of another', async () => {
      for (const text of ['a', 'b', 'c']) await store.writeEntry(entryOf('k', text, { quota }))
      expect(await refusal(store.writeEntry(entryOf('k', 'd', { quota })))).toMatchObject({
        message: 'Storage full: 4 entries with this, at most 3'
      })
      await store.writeEntry(entryOf('k', 'd', { quota, replaces: { cid: cidOf('a') } }))
      expect(await textsOf(store, 'k')).toEqual(['b', 'c', 'd'])
    })

    it('that was lowered below what is there refuses only what needs more', async () => {
      await store.writeEntry(entryOf('k', '12345', { quota }))
      const lower = { quota: { maxBytes: 2, maxEntries: 3 }, replaces: 'all' as const }
      await store.writeEntry(entryOf('k', '54321', lower))
      expect(await refusal(store.writeEntry(entryOf('k', '123456', lower)))).toMatchObject({ code: 'ERR_STORAGE_FULL' })
      expect(await textsOf(store, 'k')).toEqual(['54321'])
    })
  })

  describe('content', () => {
    it.each([0, 1, 65_536, 65_537, 262_144, 262_145, 1_048_576])(
      'of %d bytes is read as it was written',
      async (size) => {
        const bytes = largeBytes('x', size)
        await store.writeEntry(entryOf('k', bytes))
        const [content] = await another.readContents([cidOf(bytes)])
        expect(content).toMatchObject({ cid: cidOf(bytes), byteCount: size })
        expect(Buffer.compare(Buffer.from(await content!.bytes()), bytes)).toBe(0)
        const pieces: Uint8Array[] = []
        for await (const piece of await content!.pieces()) pieces.push(piece)
        expect(Buffer.compare(Buffer.concat(pieces), bytes)).toBe(0)
        expect(Math.max(0, ...pieces.map(({ length }) => length))).toBeLessThanOrEqual(262_144)
      }
    )

    it('above 64 KiB is an object, below it is none', async () => {
      await store.writeEntry(entryOf('k', largeBytes('x', 65_536)))
      expect(await objectNames(files.objects)).toEqual([])
      const large = largeBytes('x', 65_537)
      await store.writeEntry(entryOf('k', large))
      expect(await objectNames(files.objects)).toEqual([expect.stringMatching(`^${cidOf(large)}[.]`)])
    })

    it.each([10, 300_000])('of %d bytes in a file is stored, and the file is left to its caller', async (size) => {
      const folder = mkdtempSync(join(tmpdir(), 'did-auth-body-'))
      const [file, bytes] = [join(folder, 'body'), largeBytes('x', size)]
      writeFileSync(file, bytes)
      await store.writeEntry(entryOf('k', '', { content: { ...newContent(bytes), source: { file } } }))
      expect(readFileSync(file).equals(bytes)).toBe(true)
      rmSync(folder, { recursive: true })
      expect(await textsOf(store, 'k')).toEqual([bytes.toString()])
    })

    it('is answered in the order asked for, with undefined where there is none', async () => {
      await store.writeEntry(entryOf('k', 'a'))
      await store.writeEntry(entryOf('k', 'b'))
      const contents = await store.readContents([cidOf('b'), cidOf('c'), cidOf('a'), cidOf('b')])
      expect(await Promise.all(contents.map(textOf))).toEqual(['b', 'missing', 'a', 'b'])
    })

    it('that an object holds is stored once, and deleted with the last entry that has it', async () => {
      const large = largeBytes('x')
      await Promise.all([
        store.writeEntry(entryOf('k', large)),
        another.writeEntry(entryOf('k', large, { did: 'did:ethr:rsk:0xb' })),
        store.writeEntry(entryOf('other', large))
      ])
      await store.collectGarbage(NOW, { isFull: true })
      expect(await objectNames(files.objects)).toHaveLength(1)
      await store.removeEntries(place)
      await store.removeEntries({ did: 'did:ethr:rsk:0xb', key: 'k' })
      await store.collectGarbage(NOW)
      expect(await textsOf(another, 'other')).toEqual([large.toString()])
      await store.removeEntries({ did, key: 'other' })
      expect(await another.readContents([cidOf(large)])).toEqual([undefined])
      await Promise.all([store, another].map((one) => one.collectGarbage(NOW, { isFull: true })))
      expect(await objectNames(files.objects)).toEqual([])
    })

    it('that is deleted while it is read is read to its end', async () => {
      const large = largeBytes('x', 1_000_000)
      await store.writeEntry(entryOf('k', large))
      const [content] = await store.readContents([cidOf(large)])
      const pieces: Uint8Array[] = []
      for await (const piece of await content!.pieces()) {
        pieces.push(piece)
        if (pieces.length > 1) continue
        await store.removeEntries(place)
        await store.collectGarbage(NOW)
      }
      expect(Buffer.concat(pieces).equals(large)).toBe(true)
      await store.collectGarbage(NOW, { isFull: true })
      await expect(content!.bytes()).rejects.toMatchObject({ code: 'ERR_CONTENT_MISSING', status: 502 })
    })

    it('is put back only where it is in use', async () => {
      await store.repairContent(newContent('a'))
      await store.repairContent(newContent(largeBytes('x')))
      expect(await store.readContents([cidOf('a'), cidOf(largeBytes('x'))])).toEqual([undefined, undefined])
      expect(await objectNames(files.objects)).toEqual([])
    })
  })

  describe('files', () => {
    it('are found until they expire', async () => {
      await store.writeFile(fileOf('a'))
      const file = { cid: cidOf('a'), byteCount: 1, expiresAtSeconds: NOW + 1_000 }
      expect(await another.findFile(cidOf('a'), NOW + 999)).toMatchObject(file)
      expect(await another.findFile(cidOf('a'), NOW + 1_000)).toBeUndefined()
      expect(await another.findFile('whatever', NOW)).toBeUndefined()
    })

    it('expire later when they are posted again, and never earlier', async () => {
      await store.writeFile(fileOf('a'))
      await store.writeFile(fileOf('a', { nowSeconds: NOW + 500 }))
      await store.writeFile(fileOf('a', { ttlSeconds: 10 }))
      expect(await store.findFile(cidOf('a'), NOW)).toMatchObject({ expiresAtSeconds: NOW + 1_500 })
    })

    it('are bounded by user and time slot: 429 with the seconds until it ends; what is there costs nothing', async () => {
      const slotSeconds = 100
      const bounds = { maxStoreBytes: 1_000_000, maxBytesPerDid: 10, slotSeconds }
      await store.writeFile(fileOf('12345', { bounds }))
      await store.writeFile(fileOf('67890', { bounds }))
      await store.writeFile(fileOf('67890', { bounds }))
      const late = { bounds, nowSeconds: NOW + 30 }
      expect(await refusal(another.writeFile(fileOf('!', late)))).toMatchObject({
        code: 'ERR_TOO_MANY_REQUESTS',
        retryAfterSeconds: 70
      })
      await store.writeFile(fileOf('!', { ...late, did: 'did:ethr:rsk:0xb' }))
      await store.writeFile(fileOf('?', { bounds, nowSeconds: NOW + 100 }))
    })

    it('are charged once, also where an object is written between two attempts', async () => {
      const bounds = { maxStoreBytes: 10_000_000, maxBytesPerDid: 600_000, slotSeconds: 100 }
      for (const name of ['x', 'y']) await store.writeFile(fileOf(largeBytes(name), { bounds }))
      expect(await refusal(store.writeFile(fileOf('!', { bounds })))).toMatchObject({ code: 'ERR_TOO_MANY_REQUESTS' })
    })

    it('are bounded in all, with what their rows take', async () => {
      const bounds = { maxStoreBytes: 600, maxBytesPerDid: 1_000, slotSeconds: 100 }
      await store.writeFile(fileOf('x'.repeat(88), { bounds }))
      expect(await refusal(store.writeFile(fileOf('y', { bounds })))).toMatchObject({
        code: 'ERR_STORAGE_FULL',
        message: 'Storage full: 600 of 600 bytes in use by all, 513 needed'
      })
    })

    it('are deleted after they expired, with their content', async () => {
      const bounds = { maxStoreBytes: 300_512, maxBytesPerDid: 1_000_000, slotSeconds: 100 }
      await store.writeFile(fileOf(largeBytes('x'), { bounds }))
      files.clocks.advance(600)
      await store.deleteExpiredFiles(files.clocks.seconds)
      expect(await store.readContents([cidOf(largeBytes('x'))])).toEqual([expect.anything()])
      files.clocks.advance(400)
      expect(await store.deleteExpiredFiles(files.clocks.seconds)).toBe(false)
      await store.collectGarbage(files.clocks.seconds, { isFull: true })
      expect(await objectNames(files.objects)).toEqual([])
      await store.writeFile(fileOf(largeBytes('y'), { bounds, nowSeconds: files.clocks.seconds }))
    })

    it('and entries that have the same content keep it until both are gone', async () => {
      await store.writeFile(fileOf('a'))
      await store.writeEntry(entryOf('k', 'a'))
      files.clocks.advance(2_000)
      await store.deleteExpiredFiles(files.clocks.seconds)
      expect(await textsOf(store, 'k')).toEqual(['a'])
    })
  })

  describe('a clock', () => {
    it('that jumps ahead by a month for a minute deletes no file', async () => {
      await store.writeFile(fileOf('a'))
      files.clocks.advance(700)
      files.clocks.seconds += 2_592_000
      await store.deleteExpiredFiles(files.clocks.seconds)
      files.clocks.advance(60)
      await store.deleteExpiredFiles(files.clocks.seconds)
      files.clocks.seconds -= 2_592_000
      await store.deleteExpiredFiles(files.clocks.seconds)
      expect(await store.findFile(cidOf('a'), files.clocks.seconds)).toBeDefined()
    })

    it('that is a month ahead when the process starts deletes no file for ten minutes', async () => {
      await store.writeFile(fileOf('a'))
      files.clocks.seconds += 2_592_000
      const started = await files.open()
      files.clocks.advance(599)
      await started.deleteExpiredFiles(files.clocks.seconds)
      expect(await started.findFile(cidOf('a'), NOW)).toBeDefined()
      files.clocks.advance(1)
      await started.deleteExpiredFiles(files.clocks.seconds)
      expect(await started.findFile(cidOf('a'), NOW)).toBeUndefined()
    })
  })

  describe('a takedown', () => {
    it.each([10, 300_000])('removes %d bytes everywhere, and refuses them until they are allowed', async (size) => {
      const bytes = largeBytes('x', size)
      await store.writeEntry(entryOf('k', bytes))
      await store.writeEntry(entryOf('k', 'stays'))
      await store.writeEntry(entryOf('k', bytes, { did: 'did:ethr:rsk:0xb' }))
      await store.writeFile(fileOf(bytes))
      expect(await another.takeDown(cidOf(bytes), 'order 1', NOW)).toEqual({ removed: 3, remains: files.remains })
      expect(await textsOf(store, 'k')).toEqual(['stays'])
      expect(await store.usageOf('did:ethr:rsk:0xb')).toEqual({ byteCount: 0, entryCount: 0 })
      expect(await store.storedBytes()).toBe((await store.usageOf('did:ethr:rsk:0xa')).byteCount)
      expect(await store.isTakenDown(cidOf(bytes))).toBe(true)
      const failure = { code: 'ERR_TAKEN_DOWN', status: 451 }
      await expect(store.writeEntry(entryOf('k', bytes))).rejects.toMatchObject(failure)
      await expect(store.writeFile(fileOf(bytes))).rejects.toMatchObject(failure)
      await expect(store.findFile(cidOf(bytes), NOW)).rejects.toMatchObject(failure)
      expect(await objectNames(files.objects)).toEqual([])
      expect(await store.allow(cidOf(bytes))).toBe(true)
      expect(await store.allow(cidOf(bytes))).toBe(false)
      await store.writeEntry(entryOf('k', bytes))
      expect(await textsOf(store, 'k')).toEqual(['stays', bytes.toString()])
    })

    it('that comes while content is uploaded leaves no object behind', async () => {
      const bytes = largeBytes('x')
      let takenDown: unknown
      const objects = objectsWith({
        put: async (name, file) => {
          takenDown = await another.takeDown(cidOf(bytes), 'order', NOW)
          await files.objects.put(name, file)
        }
      })
      const uploading = await files.open({ objects })
      const failure = { code: 'ERR_TAKEN_DOWN' }
      await expect(uploading.writeEntry(entryOf('k', bytes))).rejects.toMatchObject(failure)
      expect(takenDown).toMatchObject({ removed: 0 })
      await store.collectGarbage(NOW)
      expect(await objectNames(files.objects)).toEqual([])
    })

    it('refuses content that nothing has', async () => {
      expect(await store.takeDown(cidOf('a'), 'order 2', NOW)).toEqual({ removed: 0, remains: files.remains })
      await expect(store.writeEntry(entryOf('k', 'a'))).rejects.toMatchObject({ code: 'ERR_TAKEN_DOWN' })
    })
  })

  describe('the object of content that was removed', () => {
    const [first, second] = [largeBytes('x'), largeBytes('y')]

    it('is kept while its slowest reader reads it, counts as stored, and is not kept in a full store or taken down', async () => {
      const objects = objectsWith({ breaksReaders: true })
      const keeping = await files.open({ objects })
      const lasts = 5 + Math.floor(first.length / 4_096)
      await keeping.writeEntry(entryOf('k', first))
      await keeping.writeEntry(entryOf('k', 'a', { replaces: 'all' }))
      files.clocks.advance(lasts - 1)
      await keeping.collectGarbage(files.clocks.seconds)
      expect([await keeping.storedBytes(), await objectNames(objects)]).toEqual([300_001, [expect.anything()]])
      files.clocks.advance(1)
      await keeping.collectGarbage(files.clocks.seconds)
      expect([await keeping.storedBytes(), await objectNames(objects)]).toEqual([1, []])
      await keeping.writeEntry(entryOf('k', first))
      await keeping.removeEntries(place)
      await keeping.collectGarbage(files.clocks.seconds, { isFull: true })
      expect(await objectNames(objects)).toEqual([])
      await keeping.writeEntry(entryOf('k', first))
      await keeping.takeDown(cidOf(first), 'order', files.clocks.seconds)
      expect(await objectNames(objects)).toEqual([])
    })

    it('goes with the next collection where its upload ended and the write was refused', async () => {
      const objects = objectsWith({
        put: async (name, file) => {
          await files.objects.put(name, file)
          await another.writeEntry(entryOf('k', 'faster'))
        }
      })
      const late = await files.open({ objects })
      const write = late.writeEntry(entryOf('k', first, { ifNoneMatch: '*' }))
      await expect(write).rejects.toMatchObject({ code: 'ERR_PRECONDITION' })
      expect(await objectNames(files.objects)).toHaveLength(1)
      await late.collectGarbage(files.clocks.seconds)
      expect(await objectNames(files.objects)).toEqual([])
    })

    it('is not abandoned by a collection while it is written, for an hour', async () => {
      let puts = 0
      const objects = objectsWith({
        put: async (name, file) => {
          puts += 1
          files.clocks.advance(3_599)
          await another.collectGarbage(files.clocks.seconds)
          await files.objects.put(name, file)
        }
      })
      const uploading = await files.open({ objects })
      await uploading.writeEntry(entryOf('k', first))
      expect([puts, await textsOf(store, 'k')]).toEqual([1, [first.toString()]])
    })

    it('is deleted by one collection, also where it is one of 101', async () => {
      for (let number = 0; number < 101; number += 1)
        await store.writeEntry(entryOf('k', largeBytes(`${number}`, 65_537)))
      await files.query('DELETE FROM ~entries')
      await files.query('INSERT INTO ~unreferenced SELECT cid, 1 FROM ~contents')
      await store.collectGarbage(files.clocks.seconds, { isFull: true })
      expect(await files.query('SELECT cid FROM ~contents UNION ALL SELECT cid FROM ~unreferenced')).toEqual([])
      expect(await objectNames(files.objects)).toEqual([])
    })

    it('stays alone where it cannot be deleted, and goes with the next collection', async () => {
      for (const bytes of [first, second]) await store.writeEntry(entryOf('k', bytes))
      const [stuck = ''] = await objectNames(files.objects)
      let isStuck = true
      const objects = objectsWith({
        delete: (name, how) =>
          isStuck && name === stuck
            ? Promise.reject(Object.assign(new Error('EIO'), { code: 'EIO' }))
            : files.objects.delete(name, how)
      })
      const collecting = await files.open({ objects })
      await collecting.removeEntries(place)
      await expect(collecting.collectGarbage(files.clocks.seconds)).rejects.toMatchObject({ code: 'ERR_STORAGE' })
      expect(await objectNames(files.objects)).toEqual([stuck])
      isStuck = false
      await collecting.collectGarbage(files.clocks.seconds)
      expect(await objectNames(files.objects)).toEqual([])
    })
  })

  it('tells the bytes that are stored: of owners, files, objects to delete, and content that nothing has', async () => {
    await store.writeEntry(entryOf('k', 'an entry'))
    await store.writeFile(fileOf('a file'))
    await store.writeEntry(entryOf('unused', 'nothing has it', { did: `${did}b` }))
    await files.query("DELETE FROM ~entries WHERE key = 'unused'")
    await files.query(`UPDATE ~owners SET byte_count = 0 WHERE did = '${did}b'`)
    for (const text of ['an entry', 'nothing has it', 'unknown'])
      await files.query(`INSERT INTO ~unreferenced VALUES ('${cidOf(text)}', 1)`)
    await files.query("INSERT INTO ~garbage VALUES ('object', 'removed', 1, 1000)")
    expect(await store.storedBytes()).toBe('an entry'.length + 'a file'.length + 512 + 'nothing has it'.length + 1_000)
  })

  it('is ready: it can write', async () => {
    await store.probe()
    await another.probe()
  })
}
