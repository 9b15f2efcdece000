import { expect, it, jest } from '@jest/globals'
import * as client from 'ipfs-http-client'
import { startFaultyNode } from '../support/faulty-ipfs-node.js'

let failures = 1
jest.unstable_mockModule('ipfs-http-client', () => ({
  ...client,
  create: (options: client.Options) => {
    failures -= 1
    if (failures >= 0) throw new Error('too many open files')
    return client.create(options)
  }
}))
const { ipfsHttpNode } = await import('../../servers/shared/ipfs/ipfs-http-node.js')

// Its rejection was kept for ever: nothing was pinned until the next start.
it('a client of the IPFS node that does not load is tried again by the next call, and loaded once', async () => {
  const faulty = await startFaultyNode()
  const node = ipfsHttpNode(faulty.url)
  const { signal } = new AbortController()
  await expect(node.ping(signal)).rejects.toThrow('too many open files')
  await node.ping(signal)
  failures = 1
  await node.ping(signal)
  expect(faulty.calls.version).toBe(2)
  node.close()
  await faulty.stop()
})
