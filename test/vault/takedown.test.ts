import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { mkdirSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { contentOf } from '../../servers/shared/content/content-blocks.js'
import { openDatabase } from '../../servers/shared/content/database.js'
import { readEnv } from '../../servers/shared/environment/read-env.js'
import { runVaultCommand } from '../../servers/vault/repair/command.js'
import { takeDown } from '../../servers/vault/repair/takedown.js'
import { startFaultyNode } from '../support/faulty-ipfs-node.js'
import { HandMadeNode } from '../support/hand-made-node.js'
import { deadRpcUrl } from '../support/rpc-node.js'
import { logIn, post } from '../support/server-client.js'
import { ServerProcesses } from '../support/server-process.js'
import { temporaryFolder } from '../support/store-folder.js'
import { dumpOf, faultsInside, vaultInside, type VaultInside } from '../support/vault-parts.js'
import { walletOf } from '../support/wallet.js'

const [alice, bob] = ['did:ethr:rsk:0xa', 'did:ethr:rsk:0xb']
const text = 'nobody should read this again'
/** Of `text`. */
const cid = 'bafkreiesman3rdmkb7gdz2a557csbk7ohm2huxeq4qpunwtohlnqochcre'

const folder = { path: '', remove: (): void => undefined }
let node = new HandMadeNode()
let inside: VaultInside

beforeEach(() => {
  Object.assign(folder, temporaryFolder())
  mkdirSync(join(folder.path, 'vault'))
  node = new HandMadeNode()
  inside = vaultInside(join(folder.path, 'vault', 'vault.db'), node)
})
afterEach(async () => {
  await inside.close()
  folder.remove()
})

/** Content under two keys of one user and one of another, beside what is not meant. */
async function fill(): Promise<void> {
  const bytes = Buffer.from(text)
  for (const [did, key] of [
    [alice, 'letters'],
    [alice, 'copies'],
    [bob, 'letters']
  ] as const) {
    expect(await inside.vault.add(did, key, bytes)).toEqual({ id: cid, isPinned: true })
  }
  await inside.vault.add(alice, 'letters', Buffer.from('harmless'))
}

/** The files of the vault that hold a text. */
function filesWith(searched: string): string[] {
  const path = join(folder.path, 'vault')
  return readdirSync(path).filter((name) => readFileSync(join(path, name)).includes(searched))
}

async function run(args: string[], env: Record<string, string> = {}): Promise<{ code: number; lines: string[] }> {
  const lines: string[] = []
  const serverEnv = readEnv({ DATA_DIR: folder.path, ...env }, 'vault', false)
  const code = await runVaultCommand(args, serverEnv, (line) => lines.push(line))
  return { code, lines }
}

describe('a takedown', () => {
  it('removes the entries of all users, content, counters and pin, and nothing else', async () => {
    await fill()
    expect(takeDown(inside, cid, false)).toEqual({ entryCount: 3, userCount: 2, isOutOfFile: true })
    expect(inside.index.find(alice, 'letters').map(({ byteCount }) => byteCount)).toEqual([8])
    expect(inside.index.find(alice, 'copies')).toEqual([])
    expect(inside.index.usage(alice)).toEqual({ byteCount: 8, entryCount: 1 })
    expect(inside.index.usage(bob)).toEqual({ byteCount: 0, entryCount: 0 })
    expect(inside.contents.read(cid)).toBeUndefined()
    expect(faultsInside(inside)).toEqual([])
    expect(await inside.outbox?.settle([cid])).toBe(true)
    expect(node.pins.has(cid)).toBe(false)
    expect(node.pins.size).toBe(1)
  })

  it.each([
    ['was lost and repaired', 'DELETE FROM blocks WHERE cid = ?', true],
    ['has lost its root', 'DELETE FROM blocks WHERE cid = ?', false],
    ['has a damaged root', "UPDATE blocks SET bytes = x'00' WHERE cid = ?", false]
  ])('leaves no block of content that %s', async (_what, sql, isRepaired) => {
    const content = contentOf(Buffer.alloc(300_000, text))
    await inside.vault.add(alice, 'letters', Buffer.alloc(300_000, text))
    inside.database.prepare(sql).run(content.cid)
    if (isRepaired) inside.contents.repair(content)
    takeDown(inside, content.cid, false)
    expect(inside.database.prepare('SELECT count(*) FROM blocks').pluck().get()).toBe(0)
  })

  it('leaves the blocks that other content shares', async () => {
    const half = Buffer.alloc(262_144, 'a')
    const [one, other] = await Promise.all([
      inside.vault.add(alice, 'one', Buffer.concat([half, Buffer.from('x')])),
      inside.vault.add(bob, 'other', Buffer.concat([half, Buffer.from('y')]))
    ])
    takeDown(inside, one.id, false)
    expect(inside.contents.read(other.id)?.length).toBe(262_145)
    expect(faultsInside(inside)).toEqual([])
  })

  it('lets its owner store the content anew', async () => {
    await fill()
    takeDown(inside, cid, false)
    expect(await inside.vault.add(bob, 'letters', Buffer.from(text))).toEqual({ id: cid, isPinned: true })
    expect(Buffer.from(inside.contents.read(cid)!).toString()).toBe(text)
    expect([...node.pins]).toContain(cid)
  })
})

describe('vault takedown', () => {
  it('leaves no byte of the content in the files', async () => {
    await fill()
    expect(filesWith(text)).not.toEqual([])
    await run(['takedown', cid])
    expect(filesWith(text)).toEqual([])
  })

  it('leaves no byte of what its owner deleted before', async () => {
    const { id } = await inside.vault.add(alice, 'letters', Buffer.alloc(20_000, text))
    inside.database.pragma('wal_checkpoint(TRUNCATE)')
    await inside.vault.remove(alice, 'letters', id)
    expect(await run(['takedown', id])).toEqual({
      code: 1,
      lines: [`No entry has the content ${id}.`, 'This vault did not pin it.']
    })
    expect(filesWith(text)).toEqual([])
  })

  it('leaves no byte of what its owner deleted before while it was damaged', async () => {
    const { id } = await inside.vault.add(alice, 'letters', Buffer.alloc(300_000, text))
    inside.database.prepare("UPDATE blocks SET bytes = x'00' WHERE cid = ?").run(id)
    await inside.vault.remove(alice, 'letters', id)
    expect((await run(['takedown', id])).code).toBe(1)
    expect(filesWith(text)).toEqual([])
  })

  it('leaves no byte of a document that a running server saw edited', async () => {
    const servers = new ServerProcesses({
      DATA_DIR: folder.path,
      SERVICE_URL: 'https://vault.example',
      LOG_LEVEL: 'warn'
    })
    try {
      const { url } = await servers.start({}, [], 'vault')
      const { accessToken } = await logIn(url, walletOf(1), 'vault.example')
      const headers = { Authorization: `DIDAuth ${accessToken}` }
      // Both versions begin with the same leaf.
      const draft = text.repeat(10_000)
      const ids: string[] = []
      for (const version of ['first', 'last']) {
        const { text: answer } = await post(`${url}/letters`, { content: draft + version }, headers)
        ids.push((JSON.parse(answer) as { id: string }).id)
      }
      expect((await fetch(`${url}/letters/${ids[0]!}`, { method: 'DELETE', headers })).status).toBe(200)
      expect(filesWith(text)).not.toEqual([])
      expect((await run(['takedown', ids[1]!])).code).toBe(0)
      expect(filesWith(text)).toEqual([])
    } finally {
      await servers.killAll()
    }
  }, 20_000)

  it('says that bytes may be left while something reads the files, and removes them afterwards', async () => {
    await fill()
    const reader = openDatabase(join(folder.path, 'vault', 'vault.db'))
    reader.exec('BEGIN')
    reader.prepare('SELECT count(*) FROM entries').get()
    expect(await run(['takedown', cid])).toEqual({
      code: 1,
      lines: [
        'Removed 3 entries of 2 users.',
        'Its bytes may be left in vault.db and vault.db-wal, because something reads them for long: run this again later.',
        'Its pin stays until there is an IPFS node again: IPFS_API_URL is not given.'
      ]
    })
    expect(filesWith(text)).not.toEqual([])
    reader.close()
    expect((await run(['takedown', cid])).lines).toEqual([
      `No entry has the content ${cid}.`,
      'Its pin stays until there is an IPFS node again: IPFS_API_URL is not given.'
    ])
    expect(filesWith(text)).toEqual([])
  })

  it('says that parts may be left while other content is damaged, and removes them afterwards', async () => {
    const bytes = Buffer.alloc(300_000, 'z')
    const { id } = await inside.vault.add(alice, 'letters', Buffer.alloc(300_000, text))
    const other = await inside.vault.add(bob, 'letters', bytes)
    inside.database.prepare("UPDATE blocks SET bytes = x'00' WHERE cid IN (?, ?)").run(id, other.id)
    const { code, lines } = await run(['takedown', id])
    expect([code, ...lines]).toEqual([
      1,
      'Removed 1 entry of 1 user.',
      'Parts of it may be left in vault.db while other content is damaged: run vault reconcile, then this again.',
      'Its pin stays until there is an IPFS node again: IPFS_API_URL is not given.'
    ])
    expect(filesWith(text)).not.toEqual([])
    inside.contents.repair(contentOf(bytes))
    expect((await run(['takedown', id])).lines).toHaveLength(2)
    expect(filesWith(text)).toEqual([])
    expect(inside.contents.read(other.id)?.length).toBe(300_000)
  })

  it('says how much it removed, and that the pin waits while the node is away', async () => {
    await fill()
    expect(await run(['takedown', cid], { IPFS_API_URL: await deadRpcUrl() })).toEqual({
      code: 0,
      lines: [
        'Removed 3 entries of 2 users.',
        'Its pin is still to be taken off: the server does so when the IPFS node answers.'
      ]
    })
    // The server that runs beside it sees the change at once, and finishes when the row is due again.
    expect(inside.contents.read(cid)).toBeUndefined()
    inside.database.prepare('UPDATE vault_pins SET retry_at_seconds = 0').run()
    await inside.outbox?.drain(2_000)
    expect(node.pins.has(cid)).toBe(false)
  })

  it('changes nothing with --dry-run, wherever that stands', async () => {
    await fill()
    const before = dumpOf(inside.database)
    const expected = { code: 0, lines: ['Would remove 3 entries of 2 users.', 'Its pin would be taken off.'] }
    expect(await run(['takedown', cid, '--dry-run'])).toEqual(expected)
    expect(await run(['takedown', '--dry-run', cid])).toEqual(expected)
    expect(dumpOf(inside.database)).toEqual(before)
  })

  it('says that nobody has it, and ends with 1', async () => {
    expect(await run(['takedown', cid])).toEqual({
      code: 1,
      lines: [`No entry has the content ${cid}.`, 'This vault did not pin it.']
    })
  })

  it('takes off a pin that outlived its entries', async () => {
    await fill()
    inside.database.exec('DELETE FROM entries')
    const faulty = await startFaultyNode()
    faulty.pins.add(cid)
    expect(await run(['takedown', cid, '--dry-run'], { IPFS_API_URL: faulty.url })).toEqual({
      code: 1,
      lines: [`No entry has the content ${cid}.`, 'Its pin would be taken off.']
    })
    expect([...faulty.pins]).toEqual([cid])
    expect(await run(['takedown', cid], { IPFS_API_URL: faulty.url })).toEqual({
      code: 1,
      lines: [`No entry has the content ${cid}.`, 'Its pin is taken off the IPFS node.']
    })
    expect([...faulty.pins]).toEqual([])
    await faulty.stop()
  })

  it('names a pin that the node has and this vault does not know of, and ends with 1', async () => {
    await fill()
    const faulty = await startFaultyNode()
    const env = { IPFS_API_URL: faulty.url }
    inside.database.exec('DELETE FROM vault_pins')
    faulty.pins.add(cid)
    const pin = `It is pinned on the IPFS node, but not by this vault as far as it knows: ipfs pin rm ${cid}`
    expect(await run(['takedown', cid, '--dry-run'], env)).toEqual({
      code: 1,
      lines: ['Would remove 3 entries of 2 users.', pin]
    })
    expect(await run(['takedown', cid], env)).toEqual({ code: 1, lines: ['Removed 3 entries of 2 users.', pin] })
    expect([...faulty.pins]).toEqual([cid])
    faulty.pins.clear()
    expect((await run(['takedown', cid], env)).lines[1]).toBe('It is not pinned on the IPFS node.')
    await faulty.stop()
    expect(await run(['takedown', cid], env)).toEqual({
      code: 1,
      lines: [
        `No entry has the content ${cid}.`,
        'This vault did not pin it as far as it knows; the IPFS node could not be asked: IPFS node unavailable, try again'
      ]
    })
  })

  it('keeps the pin in mind when no node is configured', async () => {
    await fill()
    const { code, lines } = await run(['takedown', cid])
    expect(code).toBe(0)
    expect(lines[1]).toBe('Its pin stays until there is an IPFS node again: IPFS_API_URL is not given.')
    expect(inside.intents.find(cid)?.state).toBe('unpin')
  })

  it.each([
    ['without a cid', ['takedown']],
    ['with what is no cid', ['takedown', 'QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG']],
    ['with two cids', ['takedown', cid, cid]],
    ['with an unknown flag', ['takedown', cid, '--force']],
    ['with an unknown flag of reconcile', ['reconcile', '--force']],
    ['with an unknown command', ['forget']],
    ['without a command', []]
  ])('shows its usage %s, and ends with 2', async (_what, args) => {
    const { code, lines } = await run(args)
    expect(code).toBe(2)
    expect(lines).toEqual([
      'usage: express-did-auth vault reconcile [--dry-run]\n       express-did-auth vault takedown <cid> [--dry-run]'
    ])
  })

  it('refuses a folder without a vault, and makes none', async () => {
    const empty = temporaryFolder()
    const file = join(empty.path, 'vault', 'vault.db')
    await expect(run(['takedown', cid], { DATA_DIR: empty.path })).rejects.toThrow(
      `There is no vault in ${file} (DATA_DIR)`
    )
    await expect(run(['reconcile'], { DATA_DIR: empty.path })).rejects.toThrow('There is no vault in')
    expect(readdirSync(empty.path)).toEqual([])
    empty.remove()
  })
})
