import type request from 'supertest'
import { setTimeout as pause } from 'node:timers/promises'
import { contentOf } from '../../servers/shared/content/content-blocks.js'
import { recountBlocks } from '../../servers/shared/content/content-recount.js'
import { ContentStore } from '../../servers/shared/content/content-store.js'
import { ipfsHttpNode } from '../../servers/shared/ipfs/ipfs-http-node.js'
import { startFaultyNode } from './faulty-ipfs-node.js'
import type { IpfsFault } from './ipfs-faults.js'
import { testVault, VaultUser } from './vault-app.js'
import { faultsInside } from './vault-parts.js'
import { walletOf } from './wallet.js'

/** What failed is tried again within 10 s. */
const DRAIN_TENTHS = 200
const wallet = walletOf(3)
const one = contentOf(Buffer.from('one')).cid
const lost = contentOf(Buffer.from('lost')).cid

type Ask = (user: VaultUser) => request.Test

/** Every verb of the vault with what it is to answer, whatever the node does; `lost` is lost here. */
const verbs = {
  'POST new': [(user) => user.post('k', 'new'), 201],
  'POST again': [(user) => user.post('k', 'one'), 201],
  'PUT key': [(user) => user.put('k', 'new'), 200],
  'PUT entry': [(user) => user.put(`k/${one}`, 'new'), 200],
  'DELETE key': [(user) => user.delete('k'), 200],
  'DELETE entry': [(user) => user.delete(`k/${one}`), 200],
  'GET key': [(user) => user.read('k'), 200],
  'GET lost': [(user) => user.read('gone'), 502],
  'GET keys': [(user) => user.get('keys'), 200],
  'GET storage': [(user) => user.get('storage'), 200],
  'GET backup': [(user) => user.get('backup'), 502]
} satisfies Record<string, [Ask, number]>

export type VaultVerb = keyof typeof verbs
export const vaultVerbs = Object.keys(verbs) as VaultVerb[]

/**
 * Asks a vault once while its node fails, heals the node, and tells how long the answer took and what was wrong with it or
 * with what it left.
 */
export async function askWithFault(
  fault: IpfsFault,
  verb: VaultVerb
): Promise<{ milliseconds: number; wrong: string[] }> {
  const node = await startFaultyNode({ slowMilliseconds: 3_000 })
  const client = ipfsHttpNode(node.url)
  const vault = await testVault({}, { node: client })
  const wrong: string[] = []
  try {
    const user = await VaultUser.logIn(vault.listener, wallet)
    await user.post('k', 'one').expect(201)
    await user.post('other', 'one').expect(201)
    await user.post('gone', 'lost').expect(201)
    const [ask, expected] = verbs[verb]
    const isLost = expected === 502
    if (isLost) vault.database.prepare('DELETE FROM blocks WHERE cid = ?').run(lost)

    await node.fail(fault)
    const startedAt = performance.now()
    const { status, text, headers } = await ask(user)
    const milliseconds = performance.now() - startedAt
    // A node that is only slow, or whose fault is not one of reading, still has what is lost here.
    const isFetched = isLost && status === 200 && text.includes('"lost"')
    if (status !== expected && !isFetched) wrong.push(`${status} ${text}`)
    if (status === 502 && text !== 'Content lost') wrong.push(text)
    if (headers['pin-status'] !== undefined && headers['pin-status'] !== 'pending') wrong.push('Pin-Status')

    await node.heal()
    const again = isLost ? await user.read('gone') : undefined
    if (again !== undefined && again.status !== 200) wrong.push(`then ${again.status} ${again.text}`)
    const entries = vault.database.prepare<[], string>('SELECT DISTINCT cid FROM entries ORDER BY cid').pluck()
    const open = vault.database.prepare<[], number>("SELECT count(*) FROM vault_pins WHERE state <> 'pinned'").pluck()
    const isInStep = () => open.get() === 0 && [...node.pins].sort().join() === entries.all().join()
    for (let tenth = 0; tenth < DRAIN_TENTHS && !isInStep(); tenth += 1) await pause(100)
    if (!isInStep()) wrong.push(`${String(open.get())} pins open, ${node.pins.size} pins for ${entries.all().length}`)
    // What came back has more uses than it can lose, until all are counted anew.
    if (isLost) recountBlocks(vault.database, 'SELECT DISTINCT cid FROM entries', false)
    wrong.push(...faultsInside({ database: vault.database, contents: new ContentStore(vault.database) }))
    if (wrong.length > 0) wrong.push(...vault.log().map((line) => JSON.stringify(line)))
    return { milliseconds, wrong }
  } finally {
    await vault.close()
    client.close()
    vault.database.close()
    await node.stop()
  }
}
