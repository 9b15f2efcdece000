import { afterEach, expect, it } from '@jest/globals'
import { createIpfsHttpNode, type IpfsHttpNode } from '../../../servers/ipfs/ipfs-rpc-client.js'
import { startFaultyNode, type FaultyIpfsNode } from '../../support/faults/faulty-ipfs-node.js'
import { ipfsFaults } from '../../support/faults/ipfs-faults.js'
import { askNode, catchCode, deadlineFor, expectVerdict } from '../../support/faults/ipfs-verdicts.js'

let faulty: FaultyIpfsNode
let client: IpfsHttpNode

afterEach(async () => {
  client.close()
  await faulty.stop()
})

// See ipfs-faults.slow.test.ts for each verb with each fault.
it.each(ipfsFaults)('createIpfsHttpNode reports what is wrong with a node that %s', async (fault) => {
  faulty = await startFaultyNode({ fault, slowMilliseconds: 600_000 })
  client = createIpfsHttpNode(faulty.url, { deadlineMilliseconds: deadlineFor(fault, 'add') })
  expect(await catchCode(askNode(client, 'add'))).toBe(expectVerdict(fault, 'add'))
})
