import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ObjectStore } from '../../servers/content/content-store.js'
import {
  computeCid,
  did,
  createEntry,
  createFile,
  createLargeBytes,
  createContent,
  NOW,
  listObjectNames,
  readText,
  readTexts,
  type ContentFolder,
  type TestStore
} from '../support/servers/content-stores.js'

/** Tests the contract of every ContentStore. Two stores share everything, like two instances of a server. */
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

  const entryId = { did, key: 'k' }
  /** Returns an object store for all stores, in which `verbs` replace the methods. */
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
    it('are listed in the order of their writes, also by another instance', async () => {
      await store.writeEntry(createEntry('k', 'a'))
      await another.writeEntry(createEntry('k', 'b'))
      await store.writeEntry(createEntry('k', 'c'))
      expect(await readTexts(another, 'k')).toEqual(['a', 'b', 'c'])
    })

    it('have their sizes in bytes', async () => {
      const { etag } = await store.writeEntry(createEntry('k', 'a"é'))
      const entry = { cid: computeCid('a"é'), byteCount: 4 }
      expect(await store.listEntries(entryId)).toMatchObject({ etag, entries: [entry] })
      expect(await store.listOwnEntries(did)).toMatchObject([{ key: 'k', ...entry }])
    })

    it('are an empty list before any write, with the same ETag as after removing all', async () => {
      const empty = await store.listEntries(entryId)
      expect(empty.entries).toEqual([])
      await store.writeEntry(createEntry('k', 'a'))
      expect(await store.removeEntries(entryId)).toMatchObject({ etag: empty.etag })
    })

    it('tell whether a change has released content', async () => {
      const writeAll = (text: string) => store.writeEntry(createEntry('k', text, { replaces: 'all' }))
      for (const text of ['a', 'a']) expect(await writeAll(text)).toMatchObject({ hasReleased: false })
      expect(await writeAll('b')).toMatchObject({ hasReleased: true })
      for (const hasReleased of [true, false]) expect(await store.removeEntries(entryId)).toMatchObject({ hasReleased })
    })

    it('belong to one user and one key', async () => {
      await store.writeEntry(createEntry('k', 'a'))
      await store.writeEntry(createEntry('k', 'b', { did: 'did:ethr:rsk:0xb' }))
      await store.writeEntry(createEntry('K', 'c'))
      expect(await readTexts(store, 'k')).toEqual(['a'])
      expect(await readTexts(store, 'k', 'did:ethr:rsk:0xb')).toEqual(['b'])
    })

    it('do not change if the same content is written again', async () => {
      await store.writeEntry(createEntry('k', 'a'))
      const { etag } = await store.writeEntry(createEntry('k', 'b'))
      expect(await another.writeEntry(createEntry('k', 'a'))).toMatchObject({ etag })
      expect(await readTexts(store, 'k')).toEqual(['a', 'b'])
    })

    it.each([
      { replaces: 'all', written: 'x', left: ['x'] },
      { replaces: 'all', written: 'b', left: ['b'] },
      { replaces: { cid: computeCid('a') }, written: 'x', left: ['b', 'x'] },
      { replaces: { cid: computeCid('a') }, written: 'b', left: ['b'] },
      { replaces: { cid: computeCid('a') }, written: 'a', left: ['b', 'a'] },
      { replaces: { cid: computeCid('unknown') }, written: 'x', left: ['a', 'b', 'x'] }
    ] as const)(
      'a and b: $left remain once $written replaced $replaces',
      async ({ replaces, written, left: remaining }) => {
        await store.writeEntry(createEntry('k', 'a'))
        await store.writeEntry(createEntry('k', 'b'))
        const { etag } = await store.writeEntry(createEntry('k', written, { replaces }))
        expect(await readTexts(another, 'k')).toEqual(remaining)
        expect((await store.listEntries(entryId)).etag).toBe(etag)
        expect(await store.readUsage(did)).toEqual({ byteCount: remaining.length, entryCount: remaining.length })
      }
    )

    it('keep their ETag if the last one is replaced by itself', async () => {
      await store.writeEntry(createEntry('k', 'a'))
      const { etag } = await store.writeEntry(createEntry('k', 'b'))
      expect(await store.writeEntry(createEntry('k', 'b', { replaces: { cid: computeCid('b') } }))).toMatchObject({
        etag
      })
    })

    it('are removed one by one, and removing a missing entry succeeds', async () => {
      await store.writeEntry(createEntry('k', 'a'))
      await store.writeEntry(createEntry('k', 'b'))
      await store.removeEntries({ ...entryId, cid: computeCid('a') })
      const { etag } = await store.removeEntries({ ...entryId, cid: computeCid('unknown') })
      expect((await store.listEntries(entryId)).etag).toBe(etag)
      await store.removeEntries({ did: 'did:ethr:rsk:0xb', key: 'k' })
      expect(await readTexts(store, 'k')).toEqual(['b'])
    })

    it('are all stored if two instances write many at once', async () => {
      const texts = Array.from({ length: 50 }, (_, number) => `text ${number}`)
      await Promise.all(texts.map((text, number) => (number % 2 ? store : another).writeEntry(createEntry('k', text))))
      expect((await readTexts(store, 'k')).sort()).toEqual(texts.sort())
      expect(await store.readUsage(did)).toMatchObject({ entryCount: 50 })
    })
  })

  describe('conditions', () => {
    it.each([
      { has: [], ifMatch: '*', isMet: false },
      { has: ['a'], ifMatch: '*', isMet: true },
      { has: [], ifNoneMatch: '*', isMet: true },
      { has: ['a'], ifNoneMatch: '*', isMet: false }
    ] as const)('decide whether a write to $has happens: %j', async ({ has, isMet, ...condition }) => {
      for (const text of has) await store.writeEntry(createEntry('k', text))
      const before = await store.listEntries(entryId)
      const failure = expect.objectContaining({ code: 'ERR_PRECONDITION', status: 412, etag: before.etag })
      expect(await refusal(store.writeEntry(createEntry('k', 'new', condition)))).toEqual(isMet ? 'done' : failure)
      expect(await readTexts(store, 'k')).toEqual(isMet ? [...has, 'new'] : has)
    })

    it('use the ETag of the current list, for a removal too', async () => {
      const first = await store.writeEntry(createEntry('k', 'a'))
      const second = await store.writeEntry(createEntry('k', 'b', { ifMatch: ['"x"', first.etag] }))
      const failure = { code: 'ERR_PRECONDITION', etag: second.etag }
      await expect(store.writeEntry(createEntry('k', 'c', { ifMatch: [first.etag] }))).rejects.toMatchObject(failure)
      await expect(store.removeEntries({ ...entryId, ifMatch: [first.etag] })).rejects.toMatchObject(failure)
      await store.removeEntries({ ...entryId, ifMatch: [second.etag] })
      expect(await readTexts(store, 'k')).toEqual([])
    })

    it('admit one of twenty writes with the same ETag', async () => {
      const { etag } = await store.writeEntry(createEntry('k', 'a'))
      const writes = Array.from({ length: 20 }, (_, number) =>
        refusal((number % 2 ? store : another).writeEntry(createEntry('k', `text ${number}`, { ifMatch: [etag] })))
      )
      expect((await Promise.all(writes)).filter((outcome) => outcome === 'done')).toHaveLength(1)
      expect(await readTexts(store, 'k')).toHaveLength(2)
    })
  })

  describe('the quota', () => {
    const quota = { maxBytes: 10, maxEntries: 3 }

    it('refuses the first byte above it, returns the numbers, and stores nothing', async () => {
      await store.writeEntry(createEntry('k', '12345', { quota }))
      await store.writeEntry(createEntry('k', '67890', { quota }))
      expect(await refusal(store.writeEntry(createEntry('k', '!', { quota })))).toMatchObject({
        code: 'ERR_STORAGE_FULL',
        status: 507,
        message: 'Storage full: 11 bytes with this write, at most 10'
      })
      expect(await store.readContents([computeCid('!')])).toEqual([undefined])
    })

    it('refuses the first entry above it, and allows one to replace another', async () => {
      for (const text of ['a', 'b', 'c']) await store.writeEntry(createEntry('k', text, { quota }))
      expect(await refusal(store.writeEntry(createEntry('k', 'd', { quota })))).toMatchObject({
        message: 'Storage full: 4 entries with this write, at most 3'
      })
      await store.writeEntry(createEntry('k', 'd', { quota, replaces: { cid: computeCid('a') } }))
      expect(await readTexts(store, 'k')).toEqual(['b', 'c', 'd'])
    })

    it('refuses only writes that need more space after it was lowered below the current usage', async () => {
      await store.writeEntry(createEntry('k', '12345', { quota }))
      const lower = { quota: { maxBytes: 2, maxEntries: 3 }, replaces: 'all' as const }
      await store.writeEntry(createEntry('k', '54321', lower))
      expect(await refusal(store.writeEntry(createEntry('k', '123456', lower)))).toMatchObject({
        code: 'ERR_STORAGE_FULL'
      })
      expect(await readTexts(store, 'k')).toEqual(['54321'])
    })
  })

  describe('content', () => {
    it.each([0, 1, 65_536, 65_537, 262_144, 262_145, 1_048_576])(
      'is read as it was written if it has %d bytes',
      async (size) => {
        const bytes = createLargeBytes('x', size)
        await store.writeEntry(createEntry('k', bytes))
        const [content] = await another.readContents([computeCid(bytes)])
        expect(content).toMatchObject({ cid: computeCid(bytes), byteCount: size })
        expect(Buffer.compare(Buffer.from(await content!.bytes()), bytes)).toBe(0)
        const pieces: Uint8Array[] = []
        for await (const piece of await content!.pieces()) pieces.push(piece)
        expect(Buffer.compare(Buffer.concat(pieces), bytes)).toBe(0)
        expect(Math.max(0, ...pieces.map(({ length }) => length))).toBeLessThanOrEqual(262_144)
      }
    )

    it('is an object above 64 KiB, and part of the row below', async () => {
      await store.writeEntry(createEntry('k', createLargeBytes('x', 65_536)))
      expect(await listObjectNames(files.objects)).toEqual([])
      const large = createLargeBytes('x', 65_537)
      await store.writeEntry(createEntry('k', large))
      expect(await listObjectNames(files.objects)).toEqual([expect.stringMatching(`^${computeCid(large)}[.]`)])
    })

    it.each([10, 300_000])('is stored from a file of %d bytes, which the caller keeps', async (size) => {
      const folder = mkdtempSync(join(tmpdir(), 'did-auth-body-'))
      const [file, bytes] = [join(folder, 'body'), createLargeBytes('x', size)]
      writeFileSync(file, bytes)
      const handle = await open(file, 'a')
      await store.writeEntry(createEntry('k', '', { content: { ...createContent(bytes), source: { file, handle } } }))
      await handle.close()
      expect(readFileSync(file).equals(bytes)).toBe(true)
      rmSync(folder, { recursive: true })
      expect(await readTexts(store, 'k')).toEqual([bytes.toString()])
    })

    it('is returned in the requested order, with undefined for missing content', async () => {
      await store.writeEntry(createEntry('k', 'a'))
      await store.writeEntry(createEntry('k', 'b'))
      const contents = await store.readContents([computeCid('b'), computeCid('c'), computeCid('a'), computeCid('b')])
      expect(await Promise.all(contents.map(readText))).toEqual(['b', 'missing', 'a', 'b'])
    })

    it('is stored once as an object, and deleted with its last entry', async () => {
      const large = createLargeBytes('x')
      await Promise.all([
        store.writeEntry(createEntry('k', large)),
        another.writeEntry(createEntry('k', large, { did: 'did:ethr:rsk:0xb' })),
        store.writeEntry(createEntry('other', large))
      ])
      await store.collectGarbage(NOW, { isFull: true })
      expect(await listObjectNames(files.objects)).toHaveLength(1)
      await store.removeEntries(entryId)
      await store.removeEntries({ did: 'did:ethr:rsk:0xb', key: 'k' })
      await store.collectGarbage(NOW)
      expect(await readTexts(another, 'other')).toEqual([large.toString()])
      await store.removeEntries({ did, key: 'other' })
      expect(await another.readContents([computeCid(large)])).toEqual([undefined])
      await Promise.all([store, another].map((store) => store.collectGarbage(NOW, { isFull: true })))
      expect(await listObjectNames(files.objects)).toEqual([])
    })

    it('stays in its row until its last entry is removed', async () => {
      for (const owner of ['a', 'b']) await store.writeEntry(createEntry('k', 'small', { did: `${did}${owner}` }))
      await store.removeEntries({ did: `${did}a`, key: 'k' })
      await store.collectGarbage(NOW)
      expect(await readTexts(another, 'k', `${did}b`)).toEqual(['small'])
    })

    it('is read completely if it is deleted in the meantime', async () => {
      const large = createLargeBytes('x', 1_000_000)
      await store.writeEntry(createEntry('k', large))
      const [content] = await store.readContents([computeCid(large)])
      const pieces: Uint8Array[] = []
      for await (const piece of await content!.pieces()) {
        pieces.push(piece)
        if (pieces.length > 1) continue
        await store.removeEntries(entryId)
        await store.collectGarbage(NOW)
      }
      expect(Buffer.concat(pieces).equals(large)).toBe(true)
      await store.collectGarbage(NOW, { isFull: true })
      await expect(content!.bytes()).rejects.toMatchObject({ code: 'ERR_CONTENT_MISSING', status: 502 })
    })

    it('is restored only if it is in use', async () => {
      await store.repairContent(createContent('a'))
      await store.repairContent(createContent(createLargeBytes('x')))
      expect(await store.readContents([computeCid('a'), computeCid(createLargeBytes('x'))])).toEqual([
        undefined,
        undefined
      ])
      expect(await listObjectNames(files.objects)).toEqual([])
    })
  })

  describe('files', () => {
    it('are found until they expire', async () => {
      await store.writeFile(createFile('a'))
      const file = { cid: computeCid('a'), byteCount: 1, expiresAtSeconds: NOW + 1_000 }
      expect(await another.findFile(computeCid('a'), NOW + 999)).toMatchObject(file)
      expect(await another.findFile(computeCid('a'), NOW + 1_000)).toBeUndefined()
      expect(await another.findFile('whatever', NOW)).toBeUndefined()
    })

    it('expire later if they are posted again, and never earlier', async () => {
      await store.writeFile(createFile('a'))
      await store.writeFile(createFile('a', { nowSeconds: NOW + 500 }))
      await store.writeFile(createFile('a', { ttlSeconds: 10 }))
      expect(await store.findFile(computeCid('a'), NOW)).toMatchObject({ expiresAtSeconds: NOW + 1_500 })
    })

    it('are limited per user and time slot: 429 with the seconds left; existing files are free', async () => {
      const slotSeconds = 100
      const bounds = { maxStoreBytes: 1_000_000, maxBytesPerDid: 10, slotSeconds }
      await store.writeFile(createFile('12345', { bounds }))
      await store.writeFile(createFile('67890', { bounds }))
      await store.writeFile(createFile('67890', { bounds }))
      const later = { bounds, nowSeconds: NOW + 30 }
      expect(await refusal(another.writeFile(createFile('!', later)))).toMatchObject({
        code: 'ERR_TOO_MANY_REQUESTS',
        retryAfterSeconds: 70
      })
      await store.writeFile(createFile('!', { ...later, did: 'did:ethr:rsk:0xb' }))
      await store.writeFile(createFile('?', { bounds, nowSeconds: NOW + 100 }))
    })

    it('are charged once, even if an object is written between two attempts', async () => {
      const bounds = { maxStoreBytes: 10_000_000, maxBytesPerDid: 600_000, slotSeconds: 100 }
      for (const name of ['x', 'y']) await store.writeFile(createFile(createLargeBytes(name), { bounds }))
      expect(await refusal(store.writeFile(createFile('!', { bounds })))).toMatchObject({
        code: 'ERR_TOO_MANY_REQUESTS'
      })
    })

    it('are limited in total, with the size of their rows', async () => {
      const bounds = { maxStoreBytes: 600, maxBytesPerDid: 1_000, slotSeconds: 100 }
      await store.writeFile(createFile('x'.repeat(88), { bounds }))
      expect(await refusal(store.writeFile(createFile('y', { bounds })))).toMatchObject({
        code: 'ERR_STORAGE_FULL',
        message: 'Storage full: 600 of 600 bytes used by all users, 513 needed'
      })
    })

    it('are deleted after they expire, with their content', async () => {
      const bounds = { maxStoreBytes: 300_512, maxBytesPerDid: 1_000_000, slotSeconds: 100 }
      await store.writeFile(createFile(createLargeBytes('x'), { bounds }))
      files.clocks.advance(600)
      await store.deleteExpiredFiles(files.clocks.seconds)
      expect(await store.readContents([computeCid(createLargeBytes('x'))])).toEqual([expect.anything()])
      files.clocks.advance(400)
      expect(await store.deleteExpiredFiles(files.clocks.seconds)).toBe(false)
      await store.collectGarbage(files.clocks.seconds, { isFull: true })
      expect(await listObjectNames(files.objects)).toEqual([])
      await store.writeFile(createFile(createLargeBytes('y'), { bounds, nowSeconds: files.clocks.seconds }))
    })

    it('share content with entries, which is deleted with the last of both', async () => {
      await store.writeFile(createFile('a'))
      await store.writeEntry(createEntry('k', 'a'))
      files.clocks.advance(2_000)
      await store.deleteExpiredFiles(files.clocks.seconds)
      expect(await readTexts(store, 'k')).toEqual(['a'])
    })
  })

  describe('a clock', () => {
    it('deletes no file if it jumps a month ahead for a minute', async () => {
      await store.writeFile(createFile('a'))
      files.clocks.advance(700)
      files.clocks.seconds += 2_592_000
      await store.deleteExpiredFiles(files.clocks.seconds)
      files.clocks.advance(60)
      await store.deleteExpiredFiles(files.clocks.seconds)
      files.clocks.seconds -= 2_592_000
      await store.deleteExpiredFiles(files.clocks.seconds)
      expect(await store.findFile(computeCid('a'), files.clocks.seconds)).toBeDefined()
    })

    it('deletes no file for ten minutes if it is a month ahead when the process starts', async () => {
      await store.writeFile(createFile('a'))
      files.clocks.seconds += 2_592_000
      const started = await files.open()
      files.clocks.advance(599)
      await started.deleteExpiredFiles(files.clocks.seconds)
      expect(await started.findFile(computeCid('a'), NOW)).toBeDefined()
      files.clocks.advance(1)
      await started.deleteExpiredFiles(files.clocks.seconds)
      expect(await started.findFile(computeCid('a'), NOW)).toBeUndefined()
    })
  })

  describe('takedown', () => {
    it.each([10, 300_000])(
      'removes %d bytes everywhere, and refuses them until they are allowed again',
      async (size) => {
        const bytes = createLargeBytes('x', size)
        await store.writeEntry(createEntry('k', bytes))
        await store.writeEntry(createEntry('k', 'stays'))
        await store.writeEntry(createEntry('k', bytes, { did: 'did:ethr:rsk:0xb' }))
        await store.writeFile(createFile(bytes))
        expect(await another.takeDown(computeCid(bytes), 'order 1', NOW)).toEqual({
          removed: 3,
          remains: files.remains
        })
        expect(await readTexts(store, 'k')).toEqual(['stays'])
        expect(await store.readUsage('did:ethr:rsk:0xb')).toEqual({ byteCount: 0, entryCount: 0 })
        expect(await store.storedBytes()).toBe((await store.readUsage('did:ethr:rsk:0xa')).byteCount)
        expect(await store.isTakenDown(computeCid(bytes))).toBe(true)
        const failure = { code: 'ERR_TAKEN_DOWN', status: 451 }
        await expect(store.writeEntry(createEntry('k', bytes))).rejects.toMatchObject(failure)
        await expect(store.writeFile(createFile(bytes))).rejects.toMatchObject(failure)
        await expect(store.findFile(computeCid(bytes), NOW)).rejects.toMatchObject(failure)
        expect(await listObjectNames(files.objects)).toEqual([])
        expect(await store.allow(computeCid(bytes))).toBe(true)
        expect(await store.allow(computeCid(bytes))).toBe(false)
        await store.writeEntry(createEntry('k', bytes))
        expect(await readTexts(store, 'k')).toEqual(['stays', bytes.toString()])
      }
    )

    it('leaves no object if it happens during an upload', async () => {
      const bytes = createLargeBytes('x')
      let takenDown: unknown
      const objects = objectsWith({
        put: async (name, file) => {
          takenDown = await another.takeDown(computeCid(bytes), 'order', NOW)
          await files.objects.put(name, file)
        }
      })
      const uploading = await files.open({ objects })
      const failure = { code: 'ERR_TAKEN_DOWN' }
      await expect(uploading.writeEntry(createEntry('k', bytes))).rejects.toMatchObject(failure)
      expect(takenDown).toMatchObject({ removed: 0 })
      await store.collectGarbage(NOW)
      expect(await listObjectNames(files.objects)).toEqual([])
    })

    it('refuses content that is not stored', async () => {
      expect(await store.takeDown(computeCid('a'), 'order 2', NOW)).toEqual({ removed: 0, remains: files.remains })
      await expect(store.writeEntry(createEntry('k', 'a'))).rejects.toMatchObject({ code: 'ERR_TAKEN_DOWN' })
    })
  })

  describe('the object of removed content', () => {
    const [first, second] = [createLargeBytes('x'), createLargeBytes('y')]

    it('is stored and counted until its slowest reader ends, if space allows and without a takedown', async () => {
      const objects = objectsWith({ breaksReaders: true })
      const keeping = await files.open({ objects })
      // JSON may need six bytes for each byte of content, and a list may pause before this object.
      const lasts = 300 + Math.floor(first.length / 4_096) * 6
      await keeping.writeEntry(createEntry('k', first))
      await keeping.writeEntry(createEntry('k', 'a', { replaces: 'all' }))
      files.clocks.advance(lasts - 1)
      await keeping.collectGarbage(files.clocks.seconds)
      expect([await keeping.storedBytes(), await listObjectNames(objects)]).toEqual([300_001, [expect.anything()]])
      files.clocks.advance(1)
      await keeping.collectGarbage(files.clocks.seconds)
      expect([await keeping.storedBytes(), await listObjectNames(objects)]).toEqual([1, []])
      await keeping.writeEntry(createEntry('k', first))
      await keeping.removeEntries(entryId)
      await keeping.collectGarbage(files.clocks.seconds, { isFull: true })
      expect(await listObjectNames(objects)).toEqual([])
      await keeping.writeEntry(createEntry('k', first))
      await keeping.takeDown(computeCid(first), 'order', files.clocks.seconds)
      expect(await listObjectNames(objects)).toEqual([])
    })

    it('is deleted with the next collection if its upload ended and the write was refused', async () => {
      const objects = objectsWith({
        put: async (name, file) => {
          await files.objects.put(name, file)
          await another.writeEntry(createEntry('k', 'faster'))
        }
      })
      const later = await files.open({ objects })
      const write = later.writeEntry(createEntry('k', first, { ifNoneMatch: '*' }))
      await expect(write).rejects.toMatchObject({ code: 'ERR_PRECONDITION' })
      expect(await listObjectNames(files.objects)).toHaveLength(1)
      await later.collectGarbage(files.clocks.seconds)
      expect(await listObjectNames(files.objects)).toEqual([])
    })

    it('is not collected within an hour while it is written', async () => {
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
      await uploading.writeEntry(createEntry('k', first))
      expect([puts, await readTexts(store, 'k')]).toEqual([1, [first.toString()]])
    })

    it('is uploaded again if a collector has begun to delete it', async () => {
      let puts = 0
      const objects = objectsWith({
        put: async (name, file) => {
          puts += 1
          await files.objects.put(name, file)
          if (puts === 1) await files.query("UPDATE ~garbage SET kind = 'removed'")
        }
      })
      await (await files.open({ objects })).writeEntry(createEntry('k', first))
      await store.collectGarbage(files.clocks.seconds, { isFull: true })
      expect([puts, await readTexts(store, 'k')]).toEqual([2, [first.toString()]])
    })

    it('is deleted by one collection, even if it is one of 101', async () => {
      for (let number = 0; number < 101; number += 1)
        await store.writeEntry(createEntry('k', createLargeBytes(`${number}`, 65_537)))
      await files.query('DELETE FROM ~entries')
      await files.query('INSERT INTO ~unreferenced SELECT cid, 1 FROM ~contents')
      await store.collectGarbage(files.clocks.seconds, { isFull: true })
      expect(await files.query('SELECT cid FROM ~contents UNION ALL SELECT cid FROM ~unreferenced')).toEqual([])
      expect(await listObjectNames(files.objects)).toEqual([])
    })

    it('stays if it cannot be deleted, and is deleted by the next collection', async () => {
      for (const bytes of [first, second]) await store.writeEntry(createEntry('k', bytes))
      const [stuck = ''] = await listObjectNames(files.objects)
      let isStuck = true
      const objects = objectsWith({
        delete: (name, how) =>
          isStuck && name === stuck
            ? Promise.reject(Object.assign(new Error('EIO'), { code: 'EIO' }))
            : files.objects.delete(name, how)
      })
      const collecting = await files.open({ objects })
      await collecting.removeEntries(entryId)
      await expect(collecting.collectGarbage(files.clocks.seconds)).rejects.toMatchObject({ code: 'ERR_STORAGE' })
      expect(await listObjectNames(files.objects)).toEqual([stuck])
      isStuck = false
      await collecting.collectGarbage(files.clocks.seconds)
      expect(await listObjectNames(files.objects)).toEqual([])
    })
  })

  it('reports the stored bytes: of owners, files, objects to delete, and unused content', async () => {
    await store.writeEntry(createEntry('k', 'an entry'))
    await store.writeFile(createFile('a file'))
    await store.writeEntry(createEntry('unused', 'nothing has it', { did: `${did}b` }))
    await files.query("DELETE FROM ~entries WHERE key = 'unused'")
    await files.query(`UPDATE ~owners SET byte_count = 0 WHERE did = '${did}b'`)
    for (const text of ['an entry', 'nothing has it', 'unknown'])
      await files.query(`INSERT INTO ~unreferenced VALUES ('${computeCid(text)}', 1)`)
    await files.query("INSERT INTO ~garbage VALUES ('object', 'removed', 1, 1000)")
    expect(await store.storedBytes()).toBe('an entry'.length + 'a file'.length + 512 + 'nothing has it'.length + 1_000)
  })

  it('is ready if it can write', async () => {
    await store.probe()
    await another.probe()
  })
}
