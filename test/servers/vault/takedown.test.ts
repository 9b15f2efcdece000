import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { UsageError } from '../../../servers/tools/command-line.js'
import { HandMadeNode } from '../../support/faults/hand-made-node.js'
import { runVault, testVault, VaultUser, type TestVault } from '../../support/servers/vault-app.js'
import { folderOfEachTest } from '../../support/fixtures/folder-of-each-test.js'
import { filesIn, temporaryFolder } from '../../support/fixtures/store-folder.js'
import { until } from '../../support/fixtures/until.js'

const secret = 'a secret that must be deleted'

const folder = folderOfEachTest()
let node: HandMadeNode
let vault: TestVault
let [alice, bob]: VaultUser[] = []

beforeEach(async () => {
  node = new HandMadeNode()
  vault = await testVault({}, { folder: join(folder.path, 'vault'), node })
  alice = await VaultUser.new(vault)
  bob = await VaultUser.new(vault)
})
afterEach(() => vault.close())

const run = (...args: string[]) => runVault(args, { DATA_DIR: folder.path, IPFS_API_URL: 'http://127.0.0.1:1' })

/** Returns everything in the folder of the vault. */
const readStored = (): string =>
  filesIn(vault.folder)
    .map((file) => readFileSync(file, 'latin1'))
    .join()

/** Posts content under two keys of one user and one key of another. */
async function postCopies(content: string): Promise<string> {
  const { id } = (await alice!.post('letters', content).expect(201)).body
  await alice!.post('copies', content).expect(201)
  await bob!.post('letters', content).expect(201)
  await alice!.post('letters', 'harmless').expect(201)
  return id
}

const backupHint = 'Copies may remain in backups, replicas and their logs, disk snapshots, and on other IPFS nodes.'
const pinHint = 'The running server removes the pin as soon as the IPFS node is available.'

describe('the command vault takedown', () => {
  it.each([
    ['in rows', secret],
    ['in an object', secret.repeat(10_000)]
  ])('removes content %s of all users and its bytes while the server runs, which answers 451', async (_where, text) => {
    const id = await postCopies(text)
    expect(readStored()).toContain(secret)
    const lines = [`Removed 3 entries. ${id} is refused from now on.`, pinHint, backupHint]
    expect(await run('takedown', id)).toEqual({ code: 0, lines })
    expect(readStored()).not.toContain(secret)
    await alice!.read('letters').expect(200, '["harmless"]')
    await bob!.read('letters').expect(200, '[]')
    expect((await bob!.get('storage').expect(200)).body).toMatchObject({ used: 0, usedEntries: 0 })
    await bob!.post('letters', text).expect(451, 'Taken down')
    await bob!.put('letters', text).expect(451, 'Taken down')
  })

  it('lets users store the content again with --allow', async () => {
    const id = await postCopies(secret)
    await run('takedown', id)
    expect(await run('takedown', id, '--allow')).toEqual({ code: 0, lines: [`${id} is allowed again.`] })
    expect(await run('takedown', id, '--allow')).toEqual({ code: 0, lines: [`${id} was not taken down.`] })
    await bob!.post('letters', secret).expect(201, { id })
  })

  it('makes the server remove the pin of the content, and no other pin', async () => {
    const id = await postCopies(secret)
    expect(node.pins.has(id)).toBe(true)
    await run('takedown', id)
    expect(await vault.store.areSettled([id])).toBe(false)
    await vault.close()
    vault = await testVault({}, { folder: join(folder.path, 'vault'), node })
    await until(() => vault.store.areSettled([id]), 'the pin worker has removed the pin')
    expect([node.pins.has(id), node.pins.size]).toEqual([false, 1])
  })

  it('changes nothing with --dry-run in any position, and reports what it would do', async () => {
    const id = await postCopies(secret)
    const lines = [`Would remove ${id} (${secret.length} bytes) and refuse it from now on.`]
    expect(await run('takedown', id, '--dry-run')).toEqual({ code: 0, lines })
    expect(await run('takedown', '--dry-run', id)).toEqual({ code: 0, lines })
    await bob!.read('letters').expect(200, JSON.stringify([secret]))
  })

  it('blocks content that is not stored', async () => {
    const id = await postCopies(secret)
    await alice!.delete('letters').expect(200)
    await alice!.delete('copies').expect(200)
    await bob!.delete('letters').expect(200)
    expect((await run('takedown', id)).lines[0]).toBe(`Removed 0 entries. ${id} is refused from now on.`)
    await bob!.post('letters', secret).expect(451)
  })

  it.each([
    ['a takedown without a CID', ['takedown']],
    ['an invalid CID', ['takedown', 'QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG']],
    ['an unknown flag', ['takedown', 'bafkreiesman3rdmkb7gdz2a557csbk7ohm2huxeq4qpunwtohlnqochcre', '--force']],
    ['a flag of another command', ['reconcile', '--allow']]
  ])('refuses %s', (_what, args) => expect(run(...args)).rejects.toThrow(UsageError))

  it('refuses a folder without a vault, and creates none', async () => {
    const empty = temporaryFolder()
    const reconciled = runVault(['reconcile'], { DATA_DIR: empty.path })
    await expect(reconciled).rejects.toThrow(`There is no vault in ${join(empty.path, 'vault', 'vault.db')} (DATA_DIR)`)
    expect(readdirSync(empty.path)).toEqual([])
    empty.remove()
  })
})
