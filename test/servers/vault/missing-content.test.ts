import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cidOf } from '../../../servers/content/unixfs-blocks.js'
import { HandMadeNode } from '../../support/faults/hand-made-node.js'
import { filesIn } from '../../support/fixtures/store-folder.js'
import { changeDatabase, testVault, VaultUser, type TestVault } from '../../support/servers/vault-app.js'

/** Content of three leaves, which is stored as an object. */
const LARGE = 'a'.repeat(600_000)
const CONTENTS = ['first', LARGE, 'last']
const firstCid = cidOf(Buffer.from('first'))

const node = new HandMadeNode()
let vault: TestVault
let user: VaultUser

beforeAll(async () => {
  vault = await testVault({}, { node })
})
afterAll(() => vault.close())
beforeEach(async () => {
  user = await VaultUser.new(vault)
  for (const content of CONTENTS) await user.post('notes', content).expect(201)
  await user.post('else', 'whole').expect(201)
})
afterEach(async () => {
  node.fault = () => undefined
  for (const key of ['notes', 'else']) await user.delete(key)
  await vault.store.collectGarbage(0)
})

const runSql = (text: string): void => changeDatabase(vault, text)

/** Deletes all content of the node. */
const forget = (): void => node.contents.clear()

/** Ways in which a disk damages content. See test/servers/content for others. */
const DAMAGES: [string, () => void][] = [
  ['a row is lost', () => runSql("DELETE FROM contents WHERE bytes = CAST('first' AS BLOB)")],
  [
    'a byte of each object is changed',
    () => {
      for (const file of filesIn(join(vault.folder, 'objects'))) writeFileSync(file, 'b', { flag: 'r+' })
    }
  ],
  ['everything is lost', () => runSql('DELETE FROM contents')]
]

describe('damaged content of the vault', () => {
  it.each(DAMAGES)('is answered 502 for the whole list if no node has it: %s', async (_what, damage) => {
    forget()
    damage()
    const answer = await user.read('notes').set('If-None-Match', '"other"').expect(502, 'Content missing')
    expect(answer.headers['cache-control']).toBe('no-store')
    expect(answer.headers).not.toHaveProperty('etag')
    await user.get('backup').expect(502, 'Content missing')
    expect(vault.log()).toContainEqual(
      expect.objectContaining({ event: 'request-failed', code: 'ERR_CONTENT_MISSING' })
    )
  })

  it.each(DAMAGES)('is read from the node, verified and repaired: %s', async (_what, damage) => {
    damage()
    expect((await user.read('notes').expect(200)).body).toEqual(CONTENTS)
    await user.read('else').expect(200, ['whole'])
    const reads = node.reads.length
    expect(reads).toBeGreaterThan(0)
    expect(vault.log()).toContainEqual(expect.objectContaining({ event: 'content-repaired', level: 'warn' }))
    forget()
    expect((await user.read('notes').expect(200)).body).toEqual(CONTENTS)
    expect(node.reads).toHaveLength(reads)
  })

  it('is restored when its owner writes it again, and can be replaced and deleted', async () => {
    forget()
    runSql('DELETE FROM contents')
    await user.read('notes').expect(502)
    for (const content of CONTENTS) await user.post('again', content).expect(201)
    expect((await user.read('notes').expect(200)).body).toEqual(CONTENTS)
    runSql('DELETE FROM contents')
    await user.put(`notes/${firstCid}`, 'new').expect(200)
    await user.delete('again').expect(200)
    await user.put('notes', 'newer').expect(200)
    await user.read('notes').expect(200, ['newer'])
  })
})

describe('a request to the IPFS node for missing content', () => {
  beforeEach(() => {
    node.reads.length = 0
    runSql("DELETE FROM contents WHERE bytes = CAST('first' AS BLOB)")
  })

  it.each(['ERR_IPFS_UNAVAILABLE', 'ERR_IPFS_TIMEOUT', 'ERR_IPFS_BAD_RESPONSE'] as const)(
    'leads to 502 while the node fails with %s, and then succeeds',
    async (fault) => {
      node.fault = () => fault
      await user.read('notes').expect(502, 'Content missing')
      node.fault = () => undefined
      expect((await user.read('notes').expect(200)).body).toEqual(CONTENTS)
    }
  )

  it('is sent once for concurrent readers', async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => user.read('notes')))
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200))
    expect(node.reads).toHaveLength(1)
  })

  it('is sent for at most 16 contents at once', async () => {
    for (let number = 0; number < 20; number += 1) await user.post(`key${number}`, `content ${number}`).expect(201)
    runSql("DELETE FROM contents WHERE CAST(bytes AS TEXT) LIKE 'content %'")
    let openGate = (): void => undefined
    node.gate = new Promise((resolve) => (openGate = resolve))
    const reads = Array.from({ length: 20 }, async (_, number) => (await user.read(`key${number}`)).status)
    while (node.reads.length < 16) await new Promise(setImmediate)
    // Only refused readers get a response before the node responds.
    await Promise.race(reads)
    openGate()
    expect((await Promise.all(reads)).sort()).toEqual([...Array<number>(16).fill(200), ...Array<number>(4).fill(502)])
  })

  it('answers a reader even if the content cannot be stored', async () => {
    const repair = jest.spyOn(vault.store, 'repairContent').mockRejectedValue(new Error('read-only'))
    expect((await user.read('notes').expect(200)).body).toEqual(CONTENTS)
    repair.mockRestore()
    expect(vault.log()).toContainEqual(expect.objectContaining({ event: 'repair-failed', level: 'error' }))
  })

  it('does not restore content that was taken down in the meantime', async () => {
    let openGate = (): void => undefined
    node.gate = new Promise((resolve) => (openGate = resolve))
    const reading = user.read('notes').then(({ status }) => status)
    while (node.reads.length === 0) await new Promise(setImmediate)
    expect(await vault.store.takeDown(firstCid, 'test', 0)).toMatchObject({ removed: 1 })
    openGate()
    expect(await reading).toBe(200)
    expect(await vault.store.readContents([firstCid])).toEqual([undefined])
    expect((await user.read('notes').expect(200)).body).toEqual([LARGE, 'last'])
    await user.post('notes', 'first').expect(451, 'Taken down')
    expect(await vault.store.allow(firstCid)).toBe(true)
    await user.post('notes', 'first').expect(201)
  })
})
