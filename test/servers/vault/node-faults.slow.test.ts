import { describe, expect, it } from '@jest/globals'
import Database from 'better-sqlite3'
import { join } from 'node:path'
import type request from 'supertest'
import { createIpfsHttpNode } from '../../../servers/ipfs/ipfs-rpc-client.js'
import { cidOf } from '../../../servers/content/unixfs-blocks.js'
import { runForAll } from '../../support/fixtures/until.js'
import { drainPins } from '../../support/servers/vault-with-node.js'
import { startFaultyNode } from '../../support/faults/faulty-ipfs-node.js'
import { isFullSize, note } from '../../support/fixtures/time-factor.js'
import { ipfsFaults, type IpfsFault } from '../../support/faults/ipfs-faults.js'
import { getDatabase, findVaultFaults, testVault, VaultUser } from '../../support/servers/vault-app.js'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(3)
const storedCid = cidOf(Buffer.from('one'))
const missing = cidOf(Buffer.from('missing'))

type Ask = (user: VaultUser) => request.Test

/** Every verb of the vault with its status under any fault of the node. The vault has lost `missing`. */
const verbs: [name: string, ask: Ask, status: number][] = [
  ['POST new', (user) => user.post('k', 'new'), 201],
  ['POST again', (user) => user.post('k', 'one'), 201],
  ['PUT key', (user) => user.put('k', 'new'), 200],
  ['PUT entry', (user) => user.put(`k/${storedCid}`, 'new'), 200],
  ['DELETE key', (user) => user.delete('k'), 200],
  ['DELETE entry', (user) => user.delete(`k/${storedCid}`), 200],
  ['GET key', (user) => user.read('k'), 200],
  ['GET missing', (user) => user.read('gone'), 502],
  ['GET keys', (user) => user.get('keys'), 200],
  ['GET storage', (user) => user.get('storage'), 200],
  ['GET backup', (user) => user.get('backup'), 502]
]

/** Sends a request while the node fails, heals the node, and returns faults of the response and of the stored data. */
async function askWithFault(fault: IpfsFault, [name, ask, expected]: (typeof verbs)[number]): Promise<string[]> {
  const { path, remove } = temporaryFolder()
  const node = await startFaultyNode({ slowMilliseconds: 3_000 })
  const client = createIpfsHttpNode(node.url)
  const vault = await testVault({}, { node: client, folder: join(path, 'vault') })
  const faults: string[] = []
  try {
    const user = await VaultUser.logIn(vault.listener, wallet)
    await user.post('k', 'one').expect(201)
    await user.post('other', 'one').expect(201)
    await user.post('gone', 'missing').expect(201)
    const isMissing = expected === 502
    if (isMissing) new Database(getDatabase(vault)).exec(`DELETE FROM contents WHERE cid = '${missing}'`).close()

    await node.fail(fault)
    const startedAt = performance.now()
    const { status, text, headers } = await ask(user)
    note('F7', `${fault}, ${name}: ${status} after ${(performance.now() - startedAt).toFixed(0)} ms`)
    // A node that is only slow, or fails other calls than reads, can still return the missing content.
    const isFetched = isMissing && status === 200 && text.includes('"missing"')
    if (status !== expected && !isFetched) faults.push(`${status} ${text}`)
    if (headers['pin-status'] !== undefined && headers['pin-status'] !== 'pending') faults.push('Pin-Status')

    await node.heal()
    const healedRead = isMissing ? await user.read('gone') : undefined
    if (healedRead !== undefined && healedRead.status !== 200)
      faults.push(`then ${healedRead.status} ${healedRead.text}`)
    faults.push(...(await drainPins(getDatabase(vault), () => node.pins)))
    faults.push(...(await findVaultFaults({ DATA_DIR: path, IPFS_API_URL: node.url })))
    if (faults.length > 0) faults.push(...vault.log().map((line) => JSON.stringify(line)))
    return faults.map((text) => `${fault}, ${name}: ${text}`)
  } finally {
    await vault.close()
    client.close()
    await node.stop()
    remove()
  }
}

describe('a vault whose node fails', () => {
  // Each fault is combined with one verb, or with all verbs at full size.
  const cases = ipfsFaults.flatMap((fault, place) =>
    verbs.filter((_, index) => isFullSize || index === place % verbs.length).map((verb) => [fault, verb] as const)
  )

  it('answers as documented, stores no partial write, and brings the healed node in line (F7)', async () => {
    const faults = await runForAll(cases, ([fault, verb]) => askWithFault(fault, verb))
    expect(faults.flat()).toEqual([])
  })
})
