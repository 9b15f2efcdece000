import { afterEach, describe, expect, it, jest, beforeEach } from '@jest/globals'
import { inspect } from 'node:util'
import { logLocalNodeHint, createIpfsHttpNode, type IpfsHttpNode } from '../../../servers/ipfs/ipfs-rpc-client.js'
import { startFaultyNode, type FaultyIpfsNode, type FaultyNodeOptions } from '../../support/faulty-ipfs-node.js'
import { scaled } from '../../support/time-factor.js'
import { until } from '../../support/until.js'
import { CID, digest } from 'multiformats'
import type { ServerResponse, RequestListener } from 'node:http'
import { IpfsCall } from '../../../servers/ipfs/ipfs-call.js'
import { closeServices, serving } from '../../support/server-client.js'
import { pino } from 'pino'

const ten = { bytes: Buffer.from('0123456789'), cid: 'bafkreiee3cmhp4guaqppw27zdilpajepf7kxhzvpaxaz7fv63opyql3yqi' }
const other = 'bafkreifd5lk65wwv36bdddcrnbo3yhaupi3nd74fqt6ifxtlbdil6y5hsu'

describe('ipfsHttpNode', () => {
  const started: { faulty: FaultyIpfsNode; node: IpfsHttpNode }[] = []
  async function start(options: FaultyNodeOptions = {}, userinfo = ''): Promise<(typeof started)[number]> {
    const faulty = await startFaultyNode(options)
    const node = createIpfsHttpNode(faulty.url.replace('//', `//${userinfo}`), { deadlineMilliseconds: scaled(30_000) })
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

  // Cause: the error of such a port has no code, and was taken for a bad response of a node.
  it('is unavailable at a port that fetch blocks', async () => {
    await expect(createIpfsHttpNode('http://127.0.0.1:6000').ping()).rejects.toMatchObject({
      code: 'ERR_IPFS_UNAVAILABLE'
    })
  })

  it.each([
    'not pinned or pinned indirectly',
    `${ten.cid} is not pinned`,
    `${ten.cid} is pinned indirectly under x`,
    // IPFS Cluster.
    'pin is not part of the pinset'
  ])('removes a pin that is not there, where the node says: %s', async (message) => {
    const { faulty, node } = await start()
    faulty.say(500, JSON.stringify({ Message: message, Code: 0, Type: 'error' }))
    await expect(node.unpin(ten.cid)).resolves.toBeUndefined()
  })

  it.each([
    [400, 'ERR_IPFS_BAD_RESPONSE'],
    [403, 'ERR_IPFS_BAD_RESPONSE'],
    [404, 'ERR_IPFS_BAD_RESPONSE'],
    [429, 'ERR_IPFS_UNAVAILABLE'],
    [500, 'ERR_IPFS_UNAVAILABLE'],
    [502, 'ERR_IPFS_UNAVAILABLE'],
    [504, 'ERR_IPFS_UNAVAILABLE']
  ])('takes status %i for %s', async (status, code) => {
    const { faulty, node } = await start()
    faulty.say(status, '{"Message":"what it has to say"}')
    await expect(node.ping()).rejects.toMatchObject({ name: 'ServerError', code })
  })

  it('is too slow where the node ran into its own timeout', async () => {
    const { faulty, node } = await start()
    faulty.say(500, '{"Message":"context deadline exceeded"}')
    await expect(node.ping()).rejects.toMatchObject({ code: 'ERR_IPFS_TIMEOUT' })
  })

  it('is unavailable where the name of the node is unknown', async () => {
    await expect(createIpfsHttpNode('http://node.invalid:5001').add(ten.cid, ten.bytes)).rejects.toMatchObject({
      code: 'ERR_IPFS_UNAVAILABLE'
    })
  })

  it('reads at most so many bytes', async () => {
    const { node } = await start()
    await node.add(ten.cid, ten.bytes)
    await expect(node.read(ten.cid, 9)).rejects.toMatchObject({ code: 'ERR_IPFS_BAD_RESPONSE' })
  })

  it.each([
    ['me:p@ss:word', 'me:p%40ss:word@'],
    [':p@ss', ':p%40ss@']
  ])('sends user and password of the URL in a header: %s', async (credentials, userinfo) => {
    const { faulty, node } = await start({ credentials }, userinfo)
    await node.add(ten.cid, ten.bytes)
    expect([...faulty.pins]).toEqual([ten.cid])
  })

  it('shows user and password in no error', async () => {
    const { faulty, node } = await start({ credentials: 'me:right' }, 'me:s3cret@')
    const errors: unknown[] = []
    const note = (error: unknown): void => void errors.push(error)
    await node.add(ten.cid, ten.bytes).catch(note)
    await faulty.fail('refuses')
    await node.ping().catch(note)
    expect(errors).toHaveLength(2)
    expect(inspect(errors, { depth: 8, showHidden: true })).not.toMatch(/s3cret|bWU6czNjcmV0/)
  })

  it('uses the path of the URL in place of its own', async () => {
    const { faulty } = await start()
    for (const path of ['', '/', '/api/v0', '/api/v0/']) await createIpfsHttpNode(faulty.url + path).ping()
    expect(faulty.calls.version).toBe(4)
  })

  it('asks again where the node had just ended the connection that was kept open', async () => {
    const { faulty, node } = await start({ endsKept: true })
    await Promise.all([node.add(ten.cid, ten.bytes), node.ping(), node.ping()])
    await node.add(ten.cid, ten.bytes)
    await node.unpin(ten.cid)
    expect(Buffer.from(await node.read(ten.cid, 10)).toString()).toBe('0123456789')
    expect(await node.listPins()).toEqual(new Set())
    expect(faulty.calls).toEqual({ add: 2, cat: 1, 'pin/ls': 1, 'pin/rm': 1, version: 2 })
  })

  it.each(['add', 'cat', 'pin/ls', 'pin/rm', 'version'] as const)(
    'does not ask %s again when its time is over on a connection that was kept open',
    async (verb) => {
      const { faulty, node } = await start()
      await node.add(ten.cid, ten.bytes)
      const before = faulty.calls[verb]
      await faulty.fail('is silent')
      jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'performance', 'Date'] })
      const asked = {
        add: () => node.add(ten.cid, ten.bytes),
        cat: () => node.read(ten.cid, 10),
        'pin/ls': () => node.listPins(),
        'pin/rm': () => node.unpin(ten.cid),
        version: () => node.ping()
      }[verb]()
      const refused = expect(asked).rejects.toMatchObject({ code: 'ERR_IPFS_TIMEOUT' })
      await until(() => faulty.underWay() === 1)
      jest.advanceTimersByTime(scaled(30_000))
      await refused
      jest.useRealTimers()
      // A repeated request would arrive before this one.
      await faulty.heal()
      await node.ping()
      expect(faulty.calls[verb]).toBe(before + (verb === 'version' ? 2 : 1))
    }
  )

  it('does not ask again where a new connection breaks', async () => {
    const { faulty, node } = await start({ fault: 'resets' })
    await expect(node.ping()).rejects.toMatchObject({ code: 'ERR_IPFS_UNAVAILABLE' })
    expect(faulty.calls.version).toBe(1)
  })

  it('ends everything when it is closed', async () => {
    const { faulty, node } = await start()
    await node.ping()
    await faulty.fail('is silent')
    const asked = [node.add(ten.cid, ten.bytes), node.read(ten.cid, 10), node.listPins()]
    const ended = Promise.allSettled(asked)
    await until(() => faulty.underWay() === asked.length)
    node.close()
    expect(await ended).toMatchObject(asked.map(() => ({ reason: { code: 'ERR_IPFS_UNAVAILABLE' } })))
    await expect(node.unpin(ten.cid)).rejects.toMatchObject({ code: 'ERR_IPFS_UNAVAILABLE' })
  })
})

describe('a list of pins', () => {
  let node: IpfsHttpNode
  /** The answer to the call that is under way. */
  let answer: ServerResponse | undefined
  let pinsSent = 0

  /** Counts lines that arrived, for each of which the deadline begins again. */
  const arrived = jest.spyOn(IpfsCall.prototype, 'restartDeadline')

  beforeEach(async () => {
    answer = undefined
    pinsSent = 0
    arrived.mockClear()
    const url = await serving((_req, res) => {
      answer = res.writeHead(200, { 'Content-Type': 'application/json' })
    })
    node = createIpfsHttpNode(url, { deadlineMilliseconds: 1_000, listMilliseconds: 5_000 })
    // The deadlines of the client are the test's; connections take the time that they take.
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'performance', 'Date'] })
  })
  afterEach(() => {
    jest.useRealTimers()
    closeServices()
  })

  /** Lines about so many pins, each another than all before. */
  function linesOf(count: number): string {
    const hash = Buffer.alloc(32)
    return Array.from({ length: count }, () => {
      hash.writeUInt32BE((pinsSent += 1))
      return `{"Cid":"${CID.createV1(0x55, digest.create(0x12, hash)).toString()}","Type":"recursive"}\n`
    }).join('')
  }

  /** Sends lines, and waits until the client has read them. */
  async function send(count: number): Promise<void> {
    await until(() => answer !== undefined)
    answer!.write(linesOf(count))
    await until(() => arrived.mock.calls.length === pinsSent)
  }

  /** Asks for the list. What it ends with is caught at once, because it may come before somebody awaits it. */
  function list(): Promise<number | string> {
    return node.listPins().then(
      (pins) => pins.size,
      (error: unknown) => (error as { code: string }).code
    )
  }

  it('may be longer than any other answer', async () => {
    const listed = list()
    await send(20_000)
    answer!.end()
    expect(await listed).toBe(20_000)
  })

  it('may take longer than the deadline of 1 s, as long as more of it comes', async () => {
    const listed = list()
    for (let piece = 0; piece < 4; piece += 1) {
      await send(10)
      jest.advanceTimersByTime(999)
    }
    answer!.end()
    expect(await listed).toBe(40)
  })

  it('is over when nothing comes for as long as the deadline', async () => {
    const listed = list()
    await send(10)
    jest.advanceTimersByTime(999)
    await send(10)
    jest.advanceTimersByTime(1_000)
    expect(await listed).toBe('ERR_IPFS_TIMEOUT')
  })

  it('is over after a time of its own of 5 s, however much still comes', async () => {
    const listed = list()
    for (let second = 0; second < 5; second += 1) {
      await send(1)
      jest.advanceTimersByTime(999)
    }
    await send(1)
    jest.advanceTimersByTime(5)
    expect(await listed).toBe('ERR_IPFS_TIMEOUT')
  })
})

/** Returns the lines that are logged with such a listener. */
async function linesBeside(listener: RequestListener): Promise<string[]> {
  const lines: string[] = []
  const log = pino({ base: null, timestamp: false }, { write: (line: string) => lines.push(line) })
  await logLocalNodeHint(log, await serving(listener))
  return lines
}

describe('hintAtLocalNode', () => {
  afterEach(closeServices)

  it('names a node that answers, and the variable', async () => {
    const asked: string[] = []
    const [line = '', ...others] = await linesBeside((req, res) => {
      asked.push(`${req.method!} ${req.url!}`)
      res.end('{"Version":"0.42.0"}')
    })
    expect(asked).toEqual(['POST /api/v0/version'])
    const { msg } = JSON.parse(line) as { msg: string }
    expect(msg).toMatch(/^found an IPFS node at http:\/\/127\.0\.0\.1:\d+\. Set IPFS_API_URL=/)
    expect(others).toEqual([])
  })

  it.each<[string, RequestListener]>([
    ['another service', (_req, res) => void res.writeHead(404).end()],
    ['a redirect', (_req, res) => void res.writeHead(302, { Location: 'https://elsewhere.example' }).end()],
    ['what says nothing, after 1 s', () => undefined],
    ['what breaks the connection', (req) => void req.socket.destroy()]
  ])('is silent next to %s', async (_what, listener) => {
    expect(await linesBeside(listener)).toEqual([])
  })
})
