import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { createIpfsHttpNode, type IpfsHttpNode } from '../../../servers/ipfs/ipfs-rpc-client.js'
import { startIpfsRpcServer, type IpfsRpcServer } from '../../support/ipfs-rpc-server.js'

const ten = { bytes: Buffer.from('0123456789'), cid: 'bafkreiee3cmhp4guaqppw27zdilpajepf7kxhzvpaxaz7fv63opyql3yqi' }
const other = 'bafkreifd5lk65wwv36bdddcrnbo3yhaupi3nd74fqt6ifxtlbdil6y5hsu'

describe('createIpfsHttpNode with a real node', () => {
  let real: IpfsRpcServer
  let node: IpfsHttpNode
  beforeAll(async () => {
    real = await startIpfsRpcServer()
    node = createIpfsHttpNode(real.url)
  })
  afterAll(() => real.stop())

  it.each([
    ['0 bytes', 0, 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'],
    ['10 bytes', 10, 'bafkreif7fs2yu2hwqtmvuo3y56hwmhe2jznqt2bmzd44zcgm5ecsrsxle4'],
    ['300 KiB', 307_200, 'bafybeid3gplkj54feuohu6wulukcaevq5z27bmyvwtkadvakexsyapdpuy'],
    ['5 MiB', 5_242_880, 'bafybeibmb7bb3k2r65uflxo4ftepetq2uvavrjc6c4py22uougwq35afk4']
  ])('adds, pins, lists, reads and unpins %s', async (_what, size, cid) => {
    const bytes = Buffer.alloc(size, 'a')
    await node.add(cid, bytes)
    expect(await real.pins()).toEqual([cid])
    expect(await node.listPins()).toEqual(new Set([cid]))
    expect(Buffer.compare(await node.read(cid, size), bytes)).toBe(0)
    await node.unpin(cid)
    expect(await real.pins()).toEqual([])
  })

  it('unpins content that is not pinned', async () => {
    await node.unpin(other)
    expect(await real.pins()).toEqual([])
  })

  it('pins content that is pinned already', async () => {
    await node.add(ten.cid, ten.bytes)
    await node.add(ten.cid, ten.bytes)
    expect(await real.pins()).toEqual([ten.cid])
    await node.unpin(ten.cid)
  })

  it('pings the node', () => expect(node.ping()).resolves.toBeUndefined())

  it('times out for content that the node searches without end', () =>
    expect(createIpfsHttpNode(real.url, { deadlineMilliseconds: 300 }).read(other, 100)).rejects.toMatchObject({
      code: 'ERR_IPFS_TIMEOUT'
    }))
})
