import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PinWorker } from '../../../servers/ipfs/pin-worker.js'
import { reconcile, runReconcile } from '../../../servers/tools/reconcile.js'
import { pino } from 'pino'
import type { OpenContentStore } from '../../../servers/content/sql/sql-content-store.js'
import { openContentStore } from '../../../servers/content/sql/open-sqlite-contents.js'
import { runCommand } from '../../support/servers/command-line.js'
import { computeCid, createEntry, createLargeBytes } from '../../support/servers/content-stores.js'
import { HandMadeNode } from '../../support/faults/hand-made-node.js'
import { systemClock as clock } from 'express-did-auth/server-kit'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'
import { engine } from '../../support/servers/sqlite-stores.js'
import { changeDatabase, getDatabase } from '../../support/servers/vault-app.js'
import { openConnection, type SqliteConnection } from '../../../src/stores/sqlite/sqlite-engine.js'

/** A connection with the method by which either engine allows changes of the schema's table. */
type Unprotected = SqliteConnection & { unsafeMode?(): unknown; enableDefensive?(isOn: boolean): void }

const [alice, bob] = ['did:ethr:rsk:0xa', 'did:ethr:rsk:0xb']
const large = createLargeBytes('large', 600_000)
const oneCid = computeCid('one')

let folder: ReturnType<typeof temporaryFolder>
let node: HandMadeNode
let opened: OpenContentStore
let worker: PinWorker | undefined

beforeEach(async () => {
  folder = temporaryFolder()
  node = new HandMadeNode()
  await open(true)
})
afterEach(async () => {
  await close()
  folder.remove()
})

async function open(hasNode: boolean): Promise<void> {
  opened = await openContentStore({ folder: folder.path, database: 'vault.db', tracksPins: hasNode })
  const { store } = opened
  worker = hasNode ? new PinWorker({ ledger: store, store, node, log: pino({ level: 'silent' }), clock }) : undefined
}

async function close(): Promise<void> {
  await worker?.stop()
  await opened.store.close()
}

const add = async (did: string, key: string, content: string | Uint8Array): Promise<void> => {
  const { changedPins } = await opened.store.writeEntry(createEntry(key, content, { did }))
  await worker?.settle(changedPins)
}

async function fill(): Promise<void> {
  await add(alice, 'k', 'one')
  await add(alice, 'k', 'two')
  await add(bob, 'k', 'three')
  await add(bob, 'k', large)
}

const runSql = (text: string): void => changeDatabase({ folder: folder.path }, text)

async function run(
  isDryRun = false,
  hasNode = true,
  acceptsDamage = false
): Promise<{ isInOrder: boolean; lines: string[] }> {
  const lines: string[] = []
  const { store, inspection } = opened
  const parts = { store, inspection, node: hasNode ? node : undefined, isDryRun, acceptsDamage }
  const isInOrder = await reconcile(parts, (line) => lines.push(line))
  return { isInOrder, lines }
}

const soundReport = [
  'database: sound',
  'content: 4 contents in use, all undamaged',
  'index: correct for all users',
  'objects: all in use',
  'pins: match the stored content',
  'IPFS node: has all pins of this vault, no other pins',
  'open: no pins'
]

/** Creates the report with some lines changed. */
const createReport = (changes: Record<number, string>): string[] =>
  soundReport.map((line, index) => changes[index] ?? line)

/** Verifies that --dry-run reports faults and changes nothing, that a run repairs, and that the next finds none. */
async function expectRepair(wouldBe: Record<number, string>, done: Record<number, string>): Promise<void> {
  for (let round = 0; round < 2; round += 1) {
    expect(await run(true)).toEqual({ isInOrder: false, lines: createReport(wouldBe) })
  }
  expect(await run()).toEqual({ isInOrder: true, lines: createReport(done) })
  worker?.start()
  await worker?.settle([...(await opened.inspection.listUsedContents('', 100))].map(({ cid }) => cid))
  expect(await run()).toEqual({ isInOrder: true, lines: soundReport })
}

describe('the command vault reconcile', () => {
  it('finds nothing wrong in an undamaged vault, and asks the node only for its pins', async () => {
    await fill()
    const calls = node.calls.length
    for (const isDryRun of [true, false]) expect(await run(isDryRun)).toEqual({ isInOrder: true, lines: soundReport })
    expect(node.calls.slice(calls)).toEqual(['ping', 'ping'])
  })

  it.each([
    ['a row is lost', () => runSql(`DELETE FROM contents WHERE cid = '${oneCid}'`)],
    ['an object is lost', () => rmSync(join(folder.path, 'objects'), { recursive: true })]
  ])('restores content from the node if %s', async (_what, damage) => {
    await fill()
    damage()
    await expectRepair(
      { 1: 'content: 4 contents in use, 1 to restore from the IPFS node' },
      { 1: 'content: 4 contents in use, 1 restored from the IPFS node' }
    )
  })

  it('names content that is missing everywhere, and refuses wrong bytes of a node', async () => {
    await fill()
    runSql(`DELETE FROM contents WHERE cid = '${oneCid}'`)
    node.contents.set(oneCid, Buffer.from('oNe'))
    expect((await run(false, false)).lines[1]).toBe(`content: 4 contents in use, 1 missing: ${oneCid}`)
    expect((await run()).isInOrder).toBe(false)
    await expect(opened.store.readContents([oneCid])).resolves.toEqual([undefined])
  })

  it('corrects the counted usage', async () => {
    await fill()
    runSql('UPDATE owners SET byte_count = byte_count + 7')
    await expectRepair({ 2: 'index: usage to correct for 2 users' }, { 2: 'index: usage corrected for 2 users' })
    expect(await opened.store.readUsage(alice)).toEqual({ byteCount: 6, entryCount: 2 })
  })

  it('deletes unused content and unused objects', async () => {
    await fill()
    runSql("INSERT INTO contents (cid, byte_count, leaf_hashes, bytes) VALUES ('x', 1, x'00', x'00')")
    mkdirSync(join(folder.path, 'objects', 'ff'), { recursive: true })
    writeFileSync(join(folder.path, 'objects', 'ff', `${oneCid}.00ff`), 'left')
    await expectRepair(
      { 2: 'index: 1 unused content to delete', 3: 'objects: 1 unused, to delete' },
      { 2: 'index: 1 unused content deleted', 3: 'objects: 1 unused, deleted' }
    )
    await opened.store.collectGarbage(0)
    // The folder may contain another object, because the end of a name is random.
    expect(readdirSync(join(folder.path, 'objects', 'ff'))).not.toContain(`${oneCid}.00ff`)
  })

  it('never accepts a shorter list without --accept-damage, and names the remedy', async () => {
    await fill()
    runSql(`DELETE FROM entries WHERE cid = '${oneCid}'`)
    const expectedLine =
      'index: usage corrected for 1 user, 1 unused content deleted, 1 list with missing or changed entries ' +
      '(restore the last backup, or run reconcile --accept-damage): did:ethr:rsk:0xa "k"'
    const refused = await run()
    expect([refused.isInOrder, refused.lines[2]]).toEqual([false, expectedLine])
    await expect(opened.store.listEntries({ did: alice, key: 'k' })).rejects.toMatchObject({ code: 'ERR_STORAGE' })
    const accepted = await run(false, true, true)
    expect([accepted.isInOrder, accepted.lines[2]]).toEqual([
      true,
      'index: 1 list accepted with the remaining entries: did:ethr:rsk:0xa "k"'
    ])
    expect((await opened.store.listEntries({ did: alice, key: 'k' })).entries).toHaveLength(1)
  })

  it('pins content that was written while no node was configured', async () => {
    await close()
    await open(false)
    await fill()
    expect((await run(false, false)).lines.slice(4)).toEqual([
      'pins: not compared, because no IPFS node is configured (IPFS_API_URL)',
      'IPFS node: not configured',
      'open: no pins'
    ])
    await close()
    await open(true)
    await expectRepair(
      { 4: 'pins: 4 contents to pin, no contents to unpin' },
      {
        4: 'pins: 4 contents to pin, no contents to unpin',
        6: 'open: 4 pins, which the running server adds or removes'
      }
    )
    expect(node.pins.size).toBe(4)
  })

  it('restores pins that the node lost, and leaves the pins of others unchanged', async () => {
    await fill()
    node.pins.delete(oneCid)
    node.pins.add('of another')
    expect((await run(true)).lines[5]).toBe('IPFS node: 1 missing pin to add again, 1 other pin')
    expect((await run()).lines.slice(5)).toEqual([
      'IPFS node: 1 missing pin to add again, 1 other pin',
      'open: 1 pin, which the running server adds or removes'
    ])
    expect(await worker?.settle([oneCid])).toBe(true)
    expect(node.pins.has(oneCid)).toBe(true)
    expect(node.pins.has('of another')).toBe(true)
  })

  it('reports that the node is unavailable', async () => {
    await fill()
    node.fault = () => 'ERR_IPFS_UNAVAILABLE'
    const { isInOrder, lines } = await run()
    expect([isInOrder, lines[5]]).toEqual([false, 'IPFS node: cannot list its pins: IPFS node unavailable, try again'])
  })

  it('rebuilds a damaged index', async () => {
    await fill()
    // The changed definition in SQLite no longer matches the content of the index.
    const settings = { synchronous: 'NORMAL' } as const
    const database: Unprotected = openConnection(getDatabase({ folder: folder.path }), engine, settings)
    database.unsafeMode?.()
    database.enableDefensive?.(false)
    database.exec('PRAGMA writable_schema = ON')
    database.exec("UPDATE sqlite_master SET sql = replace(sql, '(cid)', '(key)') WHERE name = 'entries_by_cid'")
    database.close()
    await close()
    await open(true)
    const { lines } = await run(true)
    expect(lines[0]).toMatch(/^database: damaged indexes to rebuild: entries_by_cid/)
    expect((await run()).lines[0]).toMatch(/^database: damaged indexes rebuilt: entries_by_cid/)
    expect((await run()).lines[0]).toBe('database: sound')
  })

  it('never reports success for a damaged file', async () => {
    for (let number = 0; number < 300; number += 1) await add(alice, `k${number}`, `content ${number}`.padEnd(500))
    await close()
    const file = getDatabase({ folder: folder.path })
    const bytes = readFileSync(file)
    for (let page = 40; page < 60; page += 1) bytes.fill(0x5a, page * 4_096, page * 4_096 + 200)
    writeFileSync(file, bytes)
    await open(true)
    const { isInOrder, lines } = await run()
    expect([isInOrder, lines.length]).toEqual([false, 1])
    expect(lines[0]).toMatch(/^database: the file is damaged: .*restore the last backup/)
  })

  it('exits with 0 if all is in order, and with 1 if content is missing', async () => {
    const { store } = await openContentStore({ folder: join(folder.path, 'vault'), database: 'vault.db' })
    await store.writeEntry(createEntry('k', large))
    await store.close()
    const readExitCode = async (): Promise<number> =>
      (await runCommand(runReconcile, [], { DATA_DIR: folder.path })).code
    expect(await readExitCode()).toBe(0)
    rmSync(join(folder.path, 'vault', 'objects'), { recursive: true })
    expect(await readExitCode()).toBe(1)
  })
})
