import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { OpenContentStore } from '../../servers/content/sql/sql-content-store.js'
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
  type ContentFolder
} from '../support/servers/content-stores.js'

const dryRun = { isDryRun: true }
const forReal = { isDryRun: false }
const inOrder = { owners: 0, damagedLists: [], unusedContents: 0 }
const missing = { code: 'ERR_CONTENT_MISSING', status: 502 }

/** Tests how a ContentStore treats damaged storage, and what its ContentInspection finds and repairs. */
export function contentInspectionContract(makeFolder: () => ContentFolder | Promise<ContentFolder>): void {
  let files: ContentFolder
  let store: OpenContentStore['store']
  let inspection: OpenContentStore['inspection']
  beforeEach(async () => {
    files = await makeFolder()
    ;({ store, inspection } = await files.openAll({ tracksPins: true }))
  })
  afterEach(() => files.remove())

  const entryId = { did, key: 'k' }
  const large = createLargeBytes('large')

  describe('list', () =>
    it.each([
      'DELETE FROM ~entries WHERE byte_count = 2',
      'UPDATE ~entries SET byte_count = 7 WHERE byte_count = 2',
      "UPDATE ~entries SET key = 'l' WHERE byte_count = 2",
      'DELETE FROM ~lists',
      'UPDATE ~lists SET entry_count = 1',
      "UPDATE ~lists SET key = 'l'"
    ])('fails after %s, and continues with the rest if the damage is accepted', async (damage) => {
      await store.writeEntry(createEntry('k', 'a'))
      await store.writeEntry(createEntry('k', 'bb'))
      await files.query(damage)
      const failure = { code: 'ERR_STORAGE', status: 503, message: 'Storage unavailable, try again: a list is damaged' }
      await expect(store.listEntries(entryId)).rejects.toMatchObject(failure)
      await expect(store.listOwnEntries(did)).rejects.toMatchObject(failure)
      expect((await inspection.recount(forReal)).damagedLists).toContainEqual(entryId)
      await inspection.recount({ isDryRun: false, acceptsDamage: true })
      expect(await inspection.recount(dryRun)).toEqual(inOrder)
      expect((await store.readUsage(did)).entryCount).toBe((await store.listOwnEntries(did)).length)
    }))

  describe('content', () => {
    it.each([
      ['a', 'bytes = leaf_hashes'],
      [large, 'leaf_hashes = substr(leaf_hashes, 33)'],
      // The first leaf is valid, as would be the first piece of a response.
      [large, 'leaf_hashes = substr(leaf_hashes, 1, 32)']
    ])('is never returned from a damaged row, and a write repairs it (%#)', async (content, damage) => {
      await store.writeEntry(createEntry('k', content))
      await files.query(`UPDATE ~contents SET ${damage}`)
      const [contentRow] = await store.readContents([computeCid(content)])
      await expect(contentRow!.bytes()).rejects.toMatchObject(missing)
      await expect(contentRow!.pieces()).rejects.toMatchObject(missing)
      await store.writeEntry(createEntry('k', content))
      expect(await readTexts(store, 'k')).toEqual([String(content)])
    })

    it.each(['written again', 'posted as a file', 'put back'] as const)(
      'is missing while its object is lost, and complete once it is %s',
      async (how) => {
        await store.writeEntry(createEntry('k', large))
        for (const name of await listObjectNames(files.objects)) await files.objects.delete(name)
        const [lost] = await store.readContents([computeCid(large)])
        await expect(lost!.pieces()).rejects.toMatchObject(missing)
        if (how === 'written again') await store.writeEntry(createEntry('k', large))
        else if (how === 'posted as a file') await store.writeFile(createFile(large))
        else await store.repairContent(createContent(large))
        expect(await readText((await store.readContents([computeCid(large)]))[0])).toBe(String(large))
        expect(await files.leaks(store)).toEqual([])
      }
    )

    it('is deleted if nothing uses it, and listed while it is used', async () => {
      await store.writeEntry(createEntry('k', 'a'))
      await store.writeFile(createFile('b'))
      await store.writeEntry(createEntry('unused', 'c', { did: `${did}b` }))
      for (const table of ['entries', 'lists']) await files.query(`DELETE FROM ~${table} WHERE key = 'unused'`)
      const used = [computeCid('a'), computeCid('b')].sort()
      expect((await inspection.listUsedContents('', 10)).map(({ cid }) => cid)).toEqual(used)
      expect((await inspection.listUsedContents(used[0]!, 10)).map(({ cid }) => cid)).toEqual(used.slice(1))
      for (const mode of [dryRun, forReal]) expect(await inspection.recount(mode)).toMatchObject({ unusedContents: 1 })
      expect(await inspection.recount(dryRun)).toEqual(inOrder)
      expect(await inspection.countEntries(computeCid('a'))).toBe(1)
    })
  })

  it('recounts the usage of a user', async () => {
    await store.writeEntry(createEntry('k', 'a'))
    await files.query('UPDATE ~owners SET byte_count = 5')
    for (const mode of [dryRun, forReal]) expect(await inspection.recount(mode)).toEqual({ ...inOrder, owners: 1 })
    expect(await store.readUsage(did)).toEqual({ byteCount: 1, entryCount: 1 })
  })

  it('reserves numbers for entries of present and new users, and never fewer than before', async () => {
    await store.writeEntry(createEntry('k', 'a'))
    for (const number of [1_000, 5]) await inspection.reserveNumbers(number)
    for (const owner of [did, `${did}b`]) {
      await store.writeEntry(createEntry('l', 'b', { did: owner }))
      expect(await inspection.listNumberedEntries({ did: owner, key: 'l' })).toMatchObject([{ number: 1_001 }])
    }
  })

  it('leaves unreferenced objects to the collector', async () => {
    await store.writeEntry(createEntry('k', large))
    const file = join(files.folder, 'file')
    writeFileSync(file, large)
    await files.objects.put('unknown.1', file)
    for (const mode of [dryRun, forReal]) expect(await inspection.checkObjects(mode)).toBe(1)
    await store.collectGarbage(NOW, { isFull: true })
    expect(await listObjectNames(files.objects)).toEqual([expect.stringContaining(computeCid(large))])
  })

  it('derives the desired state of pins from the stored content', async () => {
    for (const text of ['a', 'b', 'gone']) await store.writeEntry(createEntry(text, text))
    await files.query(`DELETE FROM ~pins WHERE cid = '${computeCid('a')}'`)
    await files.query(`UPDATE ~pins SET state = 'unpin' WHERE cid = '${computeCid('b')}'`)
    await store.removeEntries({ did, key: 'gone' })
    await files.query(`UPDATE ~pins SET state = 'pinned' WHERE cid = '${computeCid('gone')}'`)
    for (const mode of [dryRun, forReal]) expect(await inspection.trackPins(mode)).toEqual({ toPin: 2, toUnpin: 1 })
    expect(await inspection.trackPins(dryRun)).toEqual({ toPin: 0, toUnpin: 0 })
    const tasks = await store.claim({ limit: 10, nowSeconds: NOW, leaseSeconds: 30 })
    expect(tasks.map(({ cid, desired }) => [cid, desired]).sort()).toEqual(
      [
        [computeCid('a'), 'pinned'],
        [computeCid('b'), 'pinned'],
        [computeCid('gone'), 'unpinned']
      ].sort()
    )
  })

  it('finds no damage in an undamaged database', async () => {
    await store.writeEntry(createEntry('k', 'a'))
    expect(await inspection.checkDatabase(dryRun)).toEqual({ damage: [], indexes: [] })
  })

  describe('takedown', () => {
    it.each(['small', String(large)])(
      'removes all of a content that others write at the same time (%#)',
      async (text) => {
        const another = await files.open({ tracksPins: true })
        for (let round = 0; round < 10; round += 1) {
          const writes = Array.from({ length: 6 }, (_, number) =>
            (number % 2 ? store : another)
              .writeEntry(createEntry(`key ${number}`, text, { did: `${did}${number}` }))
              .catch((error: unknown) => error)
          )
          const [, ...outcomes] = await Promise.all([another.takeDown(computeCid(text), 'order', NOW), ...writes])
          for (const outcome of outcomes) if (outcome instanceof Error) expect(outcome).toMatchObject({ status: 451 })
          expect(await store.readContents([computeCid(text)])).toEqual([undefined])
          expect(await files.query('SELECT * FROM ~entries')).toEqual([])
          expect(await files.query('SELECT * FROM ~owners WHERE entry_count <> 0 OR byte_count <> 0')).toEqual([])
          await store.allow(computeCid(text))
        }
        expect(await files.leaks(store)).toEqual([])
      }
    )

    it('removes more entries than fit into one transaction, and refuses the content immediately', async () => {
      const owners = [1, 2, 3].map((number) => `${did}${number}`)
      const keys = Array.from({ length: 350 }, (_, number) => `key ${number}`)
      await Promise.all(
        owners.flatMap((owner) => keys.map((key) => store.writeEntry(createEntry(key, 'a', { did: owner }))))
      )
      await store.writeEntry(createEntry('key 0', 'stays', { did: owners[0]! }))
      expect(await store.takeDown(computeCid('a'), 'order', NOW)).toMatchObject({ removed: 1_050 })
      expect(await store.storedBytes()).toBe(5)
      expect(await inspection.recount(dryRun)).toEqual(inOrder)
      await expect(store.writeEntry(createEntry('k', 'a'))).rejects.toMatchObject({ status: 451 })
      expect(await files.leaks(store)).toEqual([])
    })
  })
}
