import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals'
import { join } from 'node:path'
import { ipfsHttpNode } from '../../servers/shared/ipfs/ipfs-http-node.js'
import { startIpfsRpcServer, type IpfsRpcServer } from '../support/ipfs-rpc-server.js'
import { temporaryFolder } from '../support/store-folder.js'
import { runAgainstDictionary } from '../support/dictionary-run.js'
import { vaultInside } from '../support/vault-parts.js'

// A real node starts in seconds, and a call to it that failed once is made again after a minute.
jest.setTimeout(180_000)

describe('a vault with a real IPFS node', () => {
  let server: IpfsRpcServer
  beforeAll(async () => {
    server = await startIpfsRpcServer()
  })
  afterAll(async () => {
    await server.stop()
  })

  it('is what the model says after 20 sequences of 50 writes by 4 users, pins included', async () => {
    const folder = temporaryFolder()
    const node = ipfsHttpNode(server.url)
    const inside = vaultInside(join(folder.path, 'vault.db'), node)
    const before = await server.pins()
    expect(
      await runAgainstDictionary(inside, async () => (await server.pins()).filter((pin) => !before.includes(pin)), {
        sequences: 20,
        operations: 50,
        seed: 7
      })
    ).toEqual([])
    await inside.close()
    node.close()
    folder.remove()
  })
})
