import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { OpenContentStore } from '../../../../servers/storage/opened-content-store.js'
import {
  cidOf,
  did,
  entryOf,
  fileOf,
  largeBytes,
  newContent,
  NOW,
  objectNames,
  textsOf
} from '../../../support/content-stores.js'
import { usePostgresContents, type PostgresContents } from '../../../support/postgres-contents.js'

const make = usePostgresContents()
let files: PostgresContents
let store: OpenContentStore['store']
let inspection: OpenContentStore['inspection']
beforeEach(async () => {
  files = await make()
  ;({ store, inspection } = files.openAll({ tracksPins: true }))
})
afterEach(() => files.remove())

const place = { did, key: 'k' }
const large = largeBytes('large')
const dryRun = { isDryRun: true }
const forReal = { isDryRun: false }
const nothing = { owners: 0, damagedLists: [], unusedContents: 0 }

describe('a list', () => {
  it.each([
    ['an entry is lost', 'DELETE FROM vault_entries WHERE byte_count = 2'],
    ['an entry is changed', 'UPDATE vault_entries SET byte_count = 7'],
    ['its row is lost', 'DELETE FROM vault_lists']
  ])('of which %s is an error, and goes on with what is left where that is accepted', async (_what, damage) => {
    await store.writeEntry(entryOf('k', 'a'))
    await store.writeEntry(entryOf('k', 'bb'))
    await files.query(damage)
    const failure = { code: 'ERR_STORAGE', message: 'Storage unavailable, try again: a list is damaged' }
    await expect(store.listEntries(place)).rejects.toMatchObject(failure)
    await expect(store.listOwnEntries(did)).rejects.toMatchObject(failure)
    expect(await inspection.recount(forReal)).toMatchObject({ damagedLists: [place] })
    await inspection.recount({ isDryRun: false, acceptsDamage: true })
    const { entries } = await store.listEntries(place)
    expect(await inspection.recount(dryRun)).toEqual(nothing)
    expect((await store.usageOf(did)).entryCount).toBe(entries.length)
  })
})

describe('counters', () => {
  it('that are wrong are told, and corrected', async () => {
    await store.writeEntry(entryOf('k', 'a'))
    await files.query('UPDATE vault_owners SET byte_count = 5')
    expect(await inspection.recount(dryRun)).toEqual({ ...nothing, owners: 1 })
    expect(await inspection.recount(forReal)).toEqual({ ...nothing, owners: 1 })
    expect(await store.usageOf(did)).toEqual({ byteCount: 1, entryCount: 1 })
  })
})

describe('content', () => {
  it.each([
    ['in a row', 'a', "UPDATE vault_contents SET bytes = 'b'"],
    ['in pieces', large, "UPDATE vault_object_pieces SET bytes = 'b' WHERE number = 0"],
    ['of which a piece is lost', large, 'DELETE FROM vault_object_pieces WHERE number = 1']
  ])('that is damaged %s is never answered, and is repaired by who writes it', async (_what, content, damage) => {
    await store.writeEntry(entryOf('k', content))
    await files.query(damage)
    const [found] = await store.readContents([cidOf(content)])
    await expect(found!.bytes()).rejects.toMatchObject({ code: 'ERR_CONTENT_MISSING' })
    await store.writeEntry(entryOf('k', content))
    expect(await textsOf(store, 'k')).toEqual([content.toString()])
    await files.query(damage)
    await store.repairContent(newContent(content))
    expect(await textsOf(store, 'k')).toEqual([content.toString()])
    expect(await files.leaks(store)).toEqual([])
  })

  it('that nothing uses is deleted, and what is used is listed', async () => {
    await store.writeEntry(entryOf('k', 'a'))
    await store.writeFile(fileOf('b'))
    await files.query(
      `INSERT INTO vault_contents SELECT 'unused', 1, 1, leaf_hashes, NULL, bytes FROM vault_contents LIMIT 1`
    )
    const used = [cidOf('a'), cidOf('b')].sort()
    expect((await inspection.listUsedContents('', 10)).map(({ cid }) => cid)).toEqual(used)
    expect((await inspection.listUsedContents(used[0]!, 10)).map(({ cid }) => cid)).toEqual(used.slice(1))
    expect(await inspection.recount(dryRun)).toEqual({ ...nothing, unusedContents: 1 })
    expect(await inspection.recount(forReal)).toEqual({ ...nothing, unusedContents: 1 })
    expect(await inspection.recount(dryRun)).toEqual(nothing)
    expect(await inspection.countUses(cidOf('a'))).toEqual({ entries: 1, owners: 1 })
  })
})

describe('an object that no content names', () => {
  it('is told, and left to the collector', async () => {
    await store.writeEntry(entryOf('k', large))
    const file = join(files.folder, 'file')
    writeFileSync(file, large)
    await files.objects.put('unknown.1', file)
    expect(await inspection.checkObjects(dryRun)).toEqual({ unused: 1 })
    expect(await inspection.checkObjects(forReal)).toEqual({ unused: 1 })
    await store.collectGarbage(NOW, { isFull: true })
    expect(await objectNames(files.objects)).toEqual([expect.stringContaining(cidOf(large))])
  })
})

describe('pins', () => {
  it('follow from what is stored', async () => {
    await store.writeEntry(entryOf('k', 'a'))
    await store.writeEntry(entryOf('k', 'b'))
    await files.query('DELETE FROM vault_pins WHERE cid = $1', [cidOf('a')])
    await files.query("UPDATE vault_pins SET state = 'unpin' WHERE cid = $1", [cidOf('b')])
    await files.query("INSERT INTO vault_pins (cid, state) VALUES ('gone', 'pinned')")
    expect(await inspection.trackPins(dryRun)).toEqual({ toPin: 2, toUnpin: 1 })
    expect(await inspection.trackPins(forReal)).toEqual({ toPin: 2, toUnpin: 1 })
    expect(await inspection.trackPins(dryRun)).toEqual({ toPin: 0, toUnpin: 0 })
    const tasks = await store.claim({ limit: 10, nowSeconds: NOW, leaseSeconds: 30 })
    expect(tasks.map(({ cid, desired }) => `${cid} ${desired}`).sort()).toEqual(
      [`${cidOf('a')} pinned`, `${cidOf('b')} pinned`, 'gone unpinned'].sort()
    )
  })
})

describe('the database', () => {
  it('is sound, or has an index that is rebuilt', async () => {
    expect(await inspection.checkDatabase(dryRun)).toEqual({ damage: [], indexes: [] })
    await files.query(`UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'vault_entries_by_cid'::regclass`)
    const found = { damage: [], indexes: ['vault_entries_by_cid'] }
    expect(await inspection.checkDatabase(dryRun)).toEqual(found)
    expect(await inspection.checkDatabase(forReal)).toEqual(found)
    expect(await inspection.checkDatabase(dryRun)).toEqual({ damage: [], indexes: [] })
  })

  it('that was restored without its foreign keys is damaged', async () => {
    const constraint = 'vault_files_cid_fkey'
    await files.query(`ALTER TABLE vault_files DROP CONSTRAINT ${constraint}`)
    const { damage } = await inspection.checkDatabase(dryRun)
    await files.query(
      `ALTER TABLE vault_files ADD CONSTRAINT ${constraint} FOREIGN KEY (cid) REFERENCES vault_contents`
    )
    expect(damage).toEqual(['table vault_files has no valid foreign key'])
  })

  it('that is out of reach is 503, and not ready', async () => {
    const away = files.openAll({ source: 'postgres://nobody@127.0.0.1:1/none' }).store
    const failure = { code: 'ERR_STORAGE', status: 503 }
    await expect(away.writeEntry(entryOf('k', 'a'))).rejects.toMatchObject(failure)
    await expect(away.readContents([cidOf('a')])).rejects.toMatchObject(failure)
    await expect(away.probe()).rejects.toMatchObject(failure)
  })
})

describe('a takedown beside writers of the same content', () => {
  it.each(['small', large.toString()])('leaves nothing of it, in any order', async (text) => {
    const another = await files.open({ tracksPins: true })
    for (let round = 0; round < 10; round += 1) {
      const writes = Array.from({ length: 6 }, (_, number) =>
        (number % 2 ? store : another)
          .writeEntry(entryOf(`key ${number}`, text, { did: `${did}${number}` }))
          .catch((error: unknown) => error)
      )
      const [, ...outcomes] = await Promise.all([another.takeDown(cidOf(text), 'order', NOW), ...writes])
      for (const outcome of outcomes) if (outcome instanceof Error) expect(outcome).toMatchObject({ status: 451 })
      expect(await store.readContents([cidOf(text)])).toEqual([undefined])
      expect(await files.query('SELECT * FROM vault_entries')).toEqual([])
      expect(await files.query('SELECT * FROM vault_owners WHERE entry_count <> 0 OR byte_count <> 0')).toEqual([])
      await store.allow(cidOf(text))
    }
    expect(await files.leaks(store)).toEqual([])
  })

  // It once locked pin and content in the other order than the collector, which runs after a removal.
  it('and a removal of the last entry lock the same rows in the same order', async () => {
    const [one, other] = [files.openAll({ tracksPins: true }), files.openAll({ tracksPins: true })]
    for (let round = 0; round < 60; round += 1) {
      await one.store.writeEntry(entryOf('k', 'a'))
      await Promise.all([one.store.removeEntries(place), other.store.takeDown(cidOf('a'), 'order', NOW)])
      await one.store.allow(cidOf('a'))
    }
    for (const { database } of [one, other]) expect(database.stats.retriesByCode).not.toHaveProperty('40P01')
    expect(await files.leaks(one.store)).toEqual([])
  })

  it('removes more entries than one transaction takes, and refuses the content from the first on', async () => {
    const owners = [1, 2, 3].map((number) => `${did}${number}`)
    const keys = Array.from({ length: 350 }, (_, number) => `key ${number}`)
    await Promise.all(owners.flatMap((owner) => keys.map((key) => store.writeEntry(entryOf(key, 'a', { did: owner })))))
    await store.writeEntry(entryOf('key 0', 'stays', { did: owners[0]! }))
    expect(await store.takeDown(cidOf('a'), 'order', NOW)).toMatchObject({ removed: 1_050 })
    expect(await store.storedBytes()).toBe(5)
    expect(await inspection.recount(dryRun)).toEqual(nothing)
    await expect(store.writeEntry(entryOf('k', 'a'))).rejects.toMatchObject({ status: 451 })
    expect(await files.leaks(store)).toEqual([])
  })
})
