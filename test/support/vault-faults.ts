import Database from 'better-sqlite3'
import { join } from 'node:path'
import type request from 'supertest'
import { ipfsHttpNode } from '../../servers/ipfs/ipfs-rpc-client.js'
import { contentOf } from '../../servers/storage/unixfs-blocks.js'
import { drainPins } from './drain-pins.js'
import { startFaultyNode } from './faulty-ipfs-node.js'
import type { IpfsFault } from './ipfs-faults.js'
import { findVaultFaults } from './run-vault-command.js'
import { temporaryFolder } from './store-folder.js'
import { databaseOf, testVault, VaultUser } from './vault-app.js'
import { walletOf } from './wallet.js'

const wallet = walletOf(3)
const one = contentOf(Buffer.from('one')).cid
const missing = contentOf(Buffer.from('missing')).cid

type Ask = (user: VaultUser) => request.Test

/** Every verb of the vault with what it is to answer, whatever the node does; `missing` is lost here. */
const verbs = {
  'POST new': [(user) => user.post('k', 'new'), 201],
  'POST again': [(user) => user.post('k', 'one'), 201],
  'PUT key': [(user) => user.put('k', 'new'), 200],
  'PUT entry': [(user) => user.put(`k/${one}`, 'new'), 200],
  'DELETE key': [(user) => user.delete('k'), 200],
  'DELETE entry': [(user) => user.delete(`k/${one}`), 200],
  'GET key': [(user) => user.read('k'), 200],
  'GET missing': [(user) => user.read('gone'), 502],
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
  const { path, remove } = temporaryFolder()
  const node = await startFaultyNode({ slowMilliseconds: 3_000 })
  const client = ipfsHttpNode(node.url)
  const vault = await testVault({}, { node: client, folder: join(path, 'vault') })
  const wrong: string[] = []
  try {
    const user = await VaultUser.logIn(vault.listener, wallet)
    await user.post('k', 'one').expect(201)
    await user.post('other', 'one').expect(201)
    await user.post('gone', 'missing').expect(201)
    const [ask, expected] = verbs[verb]
    const isMissing = expected === 502
    if (isMissing) new Database(databaseOf(vault)).exec(`DELETE FROM contents WHERE cid = '${missing}'`).close()

    await node.fail(fault)
    const startedAt = performance.now()
    const { status, text, headers } = await ask(user)
    const milliseconds = performance.now() - startedAt
    // A node that is only slow, or whose fault is not one of reading, still has what is missing here.
    const isFetched = isMissing && status === 200 && text.includes('"missing"')
    if (status !== expected && !isFetched) wrong.push(`${status} ${text}`)
    if (headers['pin-status'] !== undefined && headers['pin-status'] !== 'pending') wrong.push('Pin-Status')

    await node.heal()
    const again = isMissing ? await user.read('gone') : undefined
    if (again !== undefined && again.status !== 200) wrong.push(`then ${again.status} ${again.text}`)
    wrong.push(...(await drainPins(databaseOf(vault), () => node.pins)))
    wrong.push(...(await findVaultFaults({ DATA_DIR: path, IPFS_API_URL: node.url })))
    if (wrong.length > 0) wrong.push(...vault.log().map((line) => JSON.stringify(line)))
    return { milliseconds, wrong }
  } finally {
    await vault.close()
    client.close()
    await node.stop()
    remove()
  }
}
