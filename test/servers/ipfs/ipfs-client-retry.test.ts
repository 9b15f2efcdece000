import { expect, it, jest } from '@jest/globals'
import * as client from 'ipfs-http-client'
import { startFaultyNode } from '../../support/faults/faulty-ipfs-node.js'

let loads = 0
jest.unstable_mockModule('../../../servers/ipfs/http-client.js', () => {
  loads += 1
  if (loads === 1) throw new Error('too many open files')
  return client
})
const { createIpfsHttpNode } = await import('../../../servers/ipfs/ipfs-rpc-client.js')

// Cause: the failed import was cached, and no content was pinned until the next start.
it('an IPFS client that failed to load is loaded again by the next call, and only once', async () => {
  const faulty = await startFaultyNode()
  const [node, otherNode] = [createIpfsHttpNode(faulty.url), createIpfsHttpNode(faulty.url)]
  await expect(node.ping()).rejects.toThrow('too many open files')
  await node.ping()
  await otherNode.ping()
  expect({ loads, calls: faulty.calls.version }).toEqual({ loads: 2, calls: 2 })
  node.close()
  otherNode.close()
  await faulty.stop()
})
