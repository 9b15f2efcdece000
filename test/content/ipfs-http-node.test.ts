import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals'
import { inspect } from 'node:util'
import { ipfsHttpNode, type IpfsHttpNode } from '../../servers/shared/ipfs/ipfs-http-node.js'
import { startFaultyNode, type FaultyIpfsNode, type FaultyNodeOptions } from '../support/faulty-ipfs-node.js'
import { startIpfsRpcServer, type IpfsRpcServer } from '../support/ipfs-rpc-server.js'

const ten = { bytes: Buffer.from('0123456789'), cid: 'bafkreiee3cmhp4guaqppw27zdilpajepf7kxhzvpaxaz7fv63opyql3yqi' }
const other = 'bafkreifd5lk65wwv36bdddcrnbo3yhaupi3nd74fqt6ifxtlbdil6y5hsu'
const notAborted = new AbortController().signal

describe('ipfsHttpNode with a real node', () => {
  let real: IpfsRpcServer
  let node: IpfsHttpNode
  beforeAll(async () => {
    real = await startIpfsRpcServer()
    node = ipfsHttpNode(real.url)
  }, 20_000)
  afterAll(() => real.stop())

  it.each([
    ['nothing', 0, 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'],
    ['10 bytes', 10, 'bafkreif7fs2yu2hwqtmvuo3y56hwmhe2jznqt2bmzd44zcgm5ecsrsxle4'],
    ['300 KiB', 307_200, 'bafybeid3gplkj54feuohu6wulukcaevq5z27bmyvwtkadvakexsyapdpuy'],
    ['5 MiB', 5_242_880, 'bafybeibmb7bb3k2r65uflxo4ftepetq2uvavrjc6c4py22uougwq35afk4']
  ])('adds, pins, lists, reads and unpins %s', async (_what, size, cid) => {
    const bytes = Buffer.alloc(size, 'a')
    await node.add(cid, bytes)
    expect(await real.pins()).toEqual([cid])
    expect(await node.listPins()).toEqual(new Set([cid]))
    expect(await node.isPinned(cid)).toBe(true)
    expect(Buffer.compare(await node.read(cid, size), bytes)).toBe(0)
    await node.unpin(cid)
    expect(await real.pins()).toEqual([])
    expect(await node.isPinned(cid)).toBe(false)
  })

  it('takes a pin off that is not there', async () => {
    await node.unpin(other)
    expect(await real.pins()).toEqual([])
  })

  it('pins what is pinned already', async () => {
    await node.add(ten.cid, ten.bytes)
    await node.add(ten.cid, ten.bytes)
    expect(await real.pins()).toEqual([ten.cid])
    await node.unpin(ten.cid)
  })

  it('answers ping', async () => {
    await expect(node.ping(notAborted)).resolves.toBeUndefined()
  })

  it('is too slow with content that it does not have, for which it looks without end', async () => {
    await expect(ipfsHttpNode(real.url, { deadlineMilliseconds: 300 }).read(other, 100)).rejects.toMatchObject({
      code: 'ERR_NODE_SLOW'
    })
  })
})

describe('ipfsHttpNode', () => {
  const started: { faulty: FaultyIpfsNode; node: IpfsHttpNode }[] = []
  async function start(options: FaultyNodeOptions = {}, userinfo = ''): Promise<(typeof started)[number]> {
    const faulty = await startFaultyNode(options)
    const node = ipfsHttpNode(faulty.url.replace('//', `//${userinfo}`), { deadlineMilliseconds: 3_000 })
    started.push({ faulty, node })
    return { faulty, node }
  }
  afterEach(async () => {
    for (const { faulty, node } of started.splice(0)) {
      node.close()
      await faulty.stop()
    }
  })

  it('adds, pins, lists, reads and unpins', async () => {
    const { faulty, node } = await start()
    await node.add(ten.cid, ten.bytes)
    faulty.pins.add(other)
    expect(await node.listPins()).toEqual(new Set([ten.cid, other]))
    expect(Buffer.from(await node.read(ten.cid, 10)).toString()).toBe('0123456789')
    await node.unpin(ten.cid)
    expect([...faulty.pins]).toEqual([other])
    expect(faulty.calls).toEqual({ add: 1, cat: 1, 'pin/ls': 1, 'pin/rm': 1, version: 0 })
  })

  it('tells whether one cid is pinned, and refuses an answer about another', async () => {
    const { faulty, node } = await start()
    faulty.pins.add(ten.cid)
    expect([await node.isPinned(ten.cid), await node.isPinned(other)]).toEqual([true, false])
    faulty.say(200, JSON.stringify({ Cid: ten.cid, Type: 'recursive' }))
    await expect(node.isPinned(other)).rejects.toMatchObject({ code: 'ERR_NODE_NONSENSE' })
    faulty.say(500, JSON.stringify({ Message: 'no space left on device', Code: 0, Type: 'error' }))
    await expect(node.isPinned(other)).rejects.toMatchObject({ code: 'ERR_NODE_AWAY' })
  })

  it.each(['not pinned or pinned indirectly', `${ten.cid} is not pinned`, `${ten.cid} is pinned indirectly under x`])(
    'takes a pin off that is not there, where the node says: %s',
    async (message) => {
      const { faulty, node } = await start()
      faulty.say(500, JSON.stringify({ Message: message, Code: 0, Type: 'error' }))
      await expect(node.unpin(ten.cid)).resolves.toBeUndefined()
    }
  )

  it.each([
    [400, 'ERR_NODE_NONSENSE'],
    [403, 'ERR_NODE_NONSENSE'],
    [404, 'ERR_NODE_NONSENSE'],
    [429, 'ERR_NODE_AWAY'],
    [500, 'ERR_NODE_AWAY'],
    [502, 'ERR_NODE_AWAY'],
    [504, 'ERR_NODE_AWAY']
  ])('takes status %i for %s', async (status, code) => {
    const { faulty, node } = await start()
    faulty.say(status, '{"Message":"what it has to say"}')
    await expect(node.ping(notAborted)).rejects.toMatchObject({ name: 'ServerError', code })
  })

  it('is too slow where the node ran into its own timeout', async () => {
    const { faulty, node } = await start()
    faulty.say(500, '{"Message":"context deadline exceeded"}')
    await expect(node.ping(notAborted)).rejects.toMatchObject({ code: 'ERR_NODE_SLOW' })
  })

  it('is away where the name of the node is unknown', async () => {
    await expect(ipfsHttpNode('http://node.invalid:5001').add(ten.cid, ten.bytes)).rejects.toMatchObject({
      code: 'ERR_NODE_AWAY'
    })
  })

  it('reads at most so many bytes', async () => {
    const { node } = await start()
    await node.add(ten.cid, ten.bytes)
    await expect(node.read(ten.cid, 9)).rejects.toMatchObject({ code: 'ERR_NODE_NONSENSE' })
  })

  it('sends user and password of the URL in a header', async () => {
    const { faulty, node } = await start({ credentials: 'me:p@ss:word' }, 'me:p%40ss:word@')
    await node.add(ten.cid, ten.bytes)
    expect([...faulty.pins]).toEqual([ten.cid])
  })

  it('sends a password that has no user', async () => {
    const { faulty, node } = await start({ credentials: ':p@ss' }, ':p%40ss@')
    await node.add(ten.cid, ten.bytes)
    expect([...faulty.pins]).toEqual([ten.cid])
  })

  it('shows user and password in no error', async () => {
    const { faulty, node } = await start({ credentials: 'me:right' }, 'me:s3cret@')
    const errors: unknown[] = []
    const note = (error: unknown): void => void errors.push(error)
    await node.add(ten.cid, ten.bytes).catch(note)
    await faulty.fail('refuses')
    await node.ping(notAborted).catch(note)
    expect(errors).toHaveLength(2)
    expect(inspect(errors, { depth: 8, showHidden: true })).not.toMatch(/s3cret|bWU6czNjcmV0/)
  })

  it('uses the path of the URL in place of its own', async () => {
    const { faulty } = await start()
    for (const path of ['', '/', '/api/v0', '/api/v0/']) await ipfsHttpNode(faulty.url + path).ping(notAborted)
    expect(faulty.calls.version).toBe(4)
  })

  it('asks again where the node had just ended the connection that was kept', async () => {
    const { faulty, node } = await start({ endsKept: true })
    await Promise.all([node.add(ten.cid, ten.bytes), node.ping(notAborted), node.ping(notAborted)])
    await node.add(ten.cid, ten.bytes)
    await node.unpin(ten.cid)
    expect(Buffer.from(await node.read(ten.cid, 10)).toString()).toBe('0123456789')
    expect(await node.listPins()).toEqual(new Set())
    expect(faulty.calls).toEqual({ add: 2, cat: 1, 'pin/ls': 1, 'pin/rm': 1, version: 2 })
  })

  it.each(['add', 'cat', 'pin/ls', 'pin/rm', 'version'] as const)(
    'does not ask %s again when its time is over on a connection that was kept',
    async (verb) => {
      const faulty = await startFaultyNode()
      const node = ipfsHttpNode(faulty.url, { deadlineMilliseconds: 300 })
      started.push({ faulty, node })
      await ipfsHttpNode(faulty.url).add(ten.cid, ten.bytes)
      const before = faulty.calls[verb]
      await faulty.fail('is silent')
      const asked = {
        add: () => node.add(ten.cid, ten.bytes),
        cat: () => node.read(ten.cid, 10),
        'pin/ls': () => node.listPins(),
        'pin/rm': () => node.unpin(ten.cid),
        version: () => node.ping(notAborted)
      }[verb]()
      await expect(asked).rejects.toMatchObject({ code: 'ERR_NODE_SLOW' })
      await new Promise((resolve) => setTimeout(resolve, 100))
      expect(faulty.calls[verb]).toBe(before + 1)
    }
  )

  it('does not ask again where a new connection breaks', async () => {
    const { faulty, node } = await start({ fault: 'resets' })
    await expect(node.ping(notAborted)).rejects.toMatchObject({ code: 'ERR_NODE_AWAY' })
    expect(faulty.calls.version).toBe(1)
  })

  it('ends a ping when its caller has had enough', async () => {
    const { node } = await start({ fault: 'is silent' })
    const caller = new AbortController()
    const asked = node.ping(caller.signal)
    setTimeout(() => {
      caller.abort()
    }, 20)
    await expect(asked).rejects.toMatchObject({ code: 'ERR_NODE_SLOW' })
    await expect(node.ping(caller.signal)).rejects.toMatchObject({ code: 'ERR_NODE_SLOW' })
  })

  it('ends everything when it is closed', async () => {
    const { faulty, node } = await start()
    await node.ping(notAborted)
    await faulty.fail('is silent')
    const asked = [node.add(ten.cid, ten.bytes), node.read(ten.cid, 10), node.listPins()]
    const ended = Promise.allSettled(asked)
    setTimeout(() => {
      node.close()
    }, 20)
    expect(await ended).toMatchObject(asked.map(() => ({ reason: { code: 'ERR_NODE_AWAY' } })))
    await expect(node.unpin(ten.cid)).rejects.toMatchObject({ code: 'ERR_NODE_AWAY' })
  })
})
