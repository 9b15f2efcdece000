import { afterEach, describe, expect, it } from '@jest/globals'
import { ipfsHttpNode, type IpfsHttpNode } from '../../../servers/ipfs/ipfs-rpc-client.js'

describe('an IPFS node at a port that fetch blocks', () => {
  let node: IpfsHttpNode | undefined
  afterEach(() => {
    node?.close()
  })

  // Cause: the error of such a port has no code, and was taken for a bad response of a node.
  it.each([6000, 10080, 6667])('%d counts as unavailable with each call', async (port) => {
    node = ipfsHttpNode(`http://127.0.0.1:${String(port)}`)
    const cid = 'bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy'
    const calls = [
      node.ping(new AbortController().signal),
      node.add(cid, Buffer.from('content')),
      node.unpin(cid),
      node.read(cid, 10),
      node.listPins()
    ]
    const outcomes = await Promise.allSettled(calls)
    expect(
      outcomes.map((outcome) => (outcome.status === 'rejected' ? (outcome.reason as { status: number }).status : 0))
    ).toEqual(calls.map(() => 503))
  })
})
