import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { createIpfsHttpNode, type IpfsHttpNode } from '../../../servers/ipfs/ipfs-rpc-client.js'
import { startIpfsRpcServer, type IpfsRpcServer } from '../../support/engines/ipfs-rpc-server.js'

const content = { bytes: Buffer.from('0123456789'), cid: 'bafkreiee3cmhp4guaqppw27zdilpajepf7kxhzvpaxaz7fv63opyql3yqi' }
const otherCid = 'bafkreifd5lk65wwv36bdddcrnbo3yhaupi3nd74fqt6ifxtlbdil6y5hsu'

describe('createIpfsHttpNode with a real node', () => {
  let realNode: IpfsRpcServer
  let node: IpfsHttpNode
  beforeAll(async () => {
    realNode = await startIpfsRpcServer()
    node = createIpfsHttpNode(realNode.url)
  })
  afterAll(() => realNode.stop())

  it.each([
    ['0 bytes', 0, 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'],
    ['10 bytes', 10, 'bafkreif7fs2yu2hwqtmvuo3y56hwmhe2jznqt2bmzd44zcgm5ecsrsxle4'],
    ['300 KiB', 307_200, 'bafybeid3gplkj54feuohu6wulukcaevq5z27bmyvwtkadvakexsyapdpuy'],
    ['5 MiB', 5_242_880, 'bafybeibmb7bb3k2r65uflxo4ftepetq2uvavrjc6c4py22uougwq35afk4']
  ])('adds, pins, lists, reads and unpins %s', async (_what, size, cid) => {
    const bytes = Buffer.alloc(size, 'a')
    await node.add(cid, bytes)
    expect(await realNode.pins()).toEqual([cid])
    expect(await node.listPins()).toEqual(new Set([cid]))
    expect(Buffer.compare(await node.read(cid, size), bytes)).toBe(0)
    await node.unpin(cid)
    expect(await realNode.pins()).toEqual([])
  })

  it('unpins content that is not pinned', async () => {
    await node.unpin(otherCid)
    expect(await realNode.pins()).toEqual([])
  })

  it('pins content that is pinned already', async () => {
    await node.add(content.cid, content.bytes)
    await node.add(content.cid, content.bytes)
    expect(await realNode.pins()).toEqual([content.cid])
    await node.unpin(content.cid)
  })

  it('pings the node', () => expect(node.ping()).resolves.toBeUndefined())

  it('times out for content that the node searches without end', () =>
    expect(createIpfsHttpNode(realNode.url, { deadlineMilliseconds: 300 }).read(otherCid, 100)).rejects.toMatchObject({
      code: 'ERR_IPFS_TIMEOUT'
    }))
})
