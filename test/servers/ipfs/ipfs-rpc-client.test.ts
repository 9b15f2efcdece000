import { afterEach, describe, expect, it, jest, beforeEach } from '@jest/globals'
import { inspect } from 'node:util'
import { logLocalNodeHint, createIpfsHttpNode, type IpfsHttpNode } from '../../../servers/ipfs/ipfs-rpc-client.js'
import { startFaultyNode, type FaultyIpfsNode, type FaultyNodeOptions } from '../../support/faults/faulty-ipfs-node.js'
import { scaled } from '../../support/fixtures/time-factor.js'
import { until } from '../../support/fixtures/until.js'
import { CID, digest } from 'multiformats'
import type { ServerResponse, RequestListener } from 'node:http'
import { IpfsCall } from '../../../servers/ipfs/ipfs-call.js'
import { closeServices, serving } from '../../support/servers/server-client.js'
import { pino } from 'pino'

const content = { bytes: Buffer.from('0123456789'), cid: 'bafkreiee3cmhp4guaqppw27zdilpajepf7kxhzvpaxaz7fv63opyql3yqi' }
const otherCid = 'bafkreifd5lk65wwv36bdddcrnbo3yhaupi3nd74fqt6ifxtlbdil6y5hsu'

describe('createIpfsHttpNode', () => {
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

  it('adds, pins, lists, reads and unpins content', async () => {
    const { faulty, node } = await start()
    await node.add(content.cid, content.bytes)
    faulty.pins.add(otherCid)
    expect(await node.listPins()).toEqual(new Set([content.cid, otherCid]))
    expect(Buffer.from(await node.read(content.cid, 10)).toString()).toBe('0123456789')
    await node.unpin(content.cid)
    expect([...faulty.pins]).toEqual([otherCid])
    expect(faulty.calls).toEqual({ add: 1, cat: 1, 'pin/ls': 1, 'pin/rm': 1, version: 0 })
  })

  it('asks the node to split content as the server computes cids, whatever its profile says', async () => {
    const urls: string[] = []
    const url = await serving((req, res) => {
      urls.push(req.url ?? '')
      req.resume().on('end', () => res.end(`${JSON.stringify({ Name: content.cid, Hash: content.cid, Size: '10' })}\n`))
    })
    const node = createIpfsHttpNode(url)
    await node.add(content.cid, content.bytes)
    node.close()
    const [parameters = ''] = urls.map((text) => text.split('?')[1])
    expect(Object.fromEntries(new URLSearchParams(parameters))).toMatchObject({
      'max-file-links': '174',
      chunker: 'size-262144',
      'raw-leaves': 'true',
      'cid-version': '1'
    })
  })

  // Cause: the error for a blocked port has no code, and was treated as a bad response of a node.
  it('reports ERR_IPFS_UNAVAILABLE for a port that fetch blocks', async () => {
    await expect(createIpfsHttpNode('http://127.0.0.1:6000').ping()).rejects.toMatchObject({
      code: 'ERR_IPFS_UNAVAILABLE'
    })
  })

  it.each([
    'not pinned or pinned indirectly',
    `${content.cid} is not pinned`,
    `${content.cid} is pinned indirectly under x`,
    // The message of IPFS Cluster.
    'pin is not part of the pinset'
  ])('treats a missing pin as removed if the node reports: %s', async (message) => {
    const { faulty, node } = await start()
    faulty.say(500, JSON.stringify({ Message: message, Code: 0, Type: 'error' }))
    await expect(node.unpin(content.cid)).resolves.toBeUndefined()
  })

  it.each([
    [400, 'ERR_IPFS_BAD_RESPONSE'],
    [403, 'ERR_IPFS_BAD_RESPONSE'],
    [404, 'ERR_IPFS_BAD_RESPONSE'],
    [429, 'ERR_IPFS_UNAVAILABLE'],
    [500, 'ERR_IPFS_UNAVAILABLE'],
    [502, 'ERR_IPFS_UNAVAILABLE'],
    [504, 'ERR_IPFS_UNAVAILABLE']
  ])('maps status %i to %s', async (status, code) => {
    const { faulty, node } = await start()
    faulty.say(status, '{"Message":"what it has to say"}')
    await expect(node.ping()).rejects.toMatchObject({ name: 'ServerError', code })
  })

  it('reports ERR_IPFS_TIMEOUT if the node ran into its own timeout', async () => {
    const { faulty, node } = await start()
    faulty.say(500, '{"Message":"context deadline exceeded"}')
    await expect(node.ping()).rejects.toMatchObject({ code: 'ERR_IPFS_TIMEOUT' })
  })

  it('reports ERR_IPFS_UNAVAILABLE if the host name of the node is unknown', async () => {
    await expect(createIpfsHttpNode('http://node.invalid:5001').add(content.cid, content.bytes)).rejects.toMatchObject({
      code: 'ERR_IPFS_UNAVAILABLE'
    })
  })

  it('refuses a response with more bytes than requested', async () => {
    const { node } = await start()
    await node.add(content.cid, content.bytes)
    await expect(node.read(content.cid, 9)).rejects.toMatchObject({ code: 'ERR_IPFS_BAD_RESPONSE' })
  })

  it.each([
    ['me:p@ss:word', 'me:p%40ss:word@'],
    [':p@ss', ':p%40ss@']
  ])('sends the credentials of the URL in a header: %s', async (credentials, userinfo) => {
    const { faulty, node } = await start({ credentials }, userinfo)
    await node.add(content.cid, content.bytes)
    expect([...faulty.pins]).toEqual([content.cid])
  })

  it('shows the credentials in no error', async () => {
    const { faulty, node } = await start({ credentials: 'me:right' }, 'me:s3cret@')
    const errors: unknown[] = []
    const addError = (error: unknown): void => void errors.push(error)
    await node.add(content.cid, content.bytes).catch(addError)
    await faulty.fail('refuses')
    await node.ping().catch(addError)
    expect(errors).toHaveLength(2)
    expect(inspect(errors, { depth: 8, showHidden: true })).not.toMatch(/s3cret|bWU6czNjcmV0/)
  })

  it('accepts a URL with or without the path of the API', async () => {
    const { faulty } = await start()
    for (const path of ['', '/', '/api/v0', '/api/v0/']) await createIpfsHttpNode(faulty.url + path).ping()
    expect(faulty.calls.version).toBe(4)
  })

  it('retries if the node had just closed a persistent connection', async () => {
    const { faulty, node } = await start({ endsKept: true })
    await Promise.all([node.add(content.cid, content.bytes), node.ping(), node.ping()])
    await node.add(content.cid, content.bytes)
    await node.unpin(content.cid)
    expect(Buffer.from(await node.read(content.cid, 10)).toString()).toBe('0123456789')
    expect(await node.listPins()).toEqual(new Set())
    expect(faulty.calls).toEqual({ add: 2, cat: 1, 'pin/ls': 1, 'pin/rm': 1, version: 2 })
  })

  it.each(['add', 'cat', 'pin/ls', 'pin/rm', 'version'] as const)(
    'does not retry %s after a timeout on a persistent connection',
    async (verb) => {
      const { faulty, node } = await start()
      await node.add(content.cid, content.bytes)
      const before = faulty.calls[verb]
      await faulty.fail('is silent')
      jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'performance', 'Date'] })
      const call = {
        add: () => node.add(content.cid, content.bytes),
        cat: () => node.read(content.cid, 10),
        'pin/ls': () => node.listPins(),
        'pin/rm': () => node.unpin(content.cid),
        version: () => node.ping()
      }[verb]()
      const refused = expect(call).rejects.toMatchObject({ code: 'ERR_IPFS_TIMEOUT' })
      await until(() => faulty.underWay() === 1)
      jest.advanceTimersByTime(scaled(30_000))
      await refused
      jest.useRealTimers()
      // A retry would arrive before this request.
      await faulty.heal()
      await node.ping()
      expect(faulty.calls[verb]).toBe(before + (verb === 'version' ? 2 : 1))
    }
  )

  it('does not retry if a new connection breaks', async () => {
    const { faulty, node } = await start({ fault: 'resets' })
    await expect(node.ping()).rejects.toMatchObject({ code: 'ERR_IPFS_UNAVAILABLE' })
    expect(faulty.calls.version).toBe(1)
  })

  it('ends all calls when it is closed', async () => {
    const { faulty, node } = await start()
    await node.ping()
    await faulty.fail('is silent')
    const calls = [node.add(content.cid, content.bytes), node.read(content.cid, 10), node.listPins()]
    const outcomes = Promise.allSettled(calls)
    await until(() => faulty.underWay() === calls.length)
    node.close()
    expect(await outcomes).toMatchObject(calls.map(() => ({ reason: { code: 'ERR_IPFS_UNAVAILABLE' } })))
    await expect(node.unpin(content.cid)).rejects.toMatchObject({ code: 'ERR_IPFS_UNAVAILABLE' })
  })
})

describe('listPins', () => {
  let node: IpfsHttpNode
  /** Response to the call in flight. */
  let answer: ServerResponse | undefined
  let pinsSent = 0

  /** Counts received lines, each of which restarts the deadline. */
  const arrivedLines = jest.spyOn(IpfsCall.prototype, 'restartDeadline')

  beforeEach(async () => {
    answer = undefined
    pinsSent = 0
    arrivedLines.mockClear()
    const url = await serving((_req, res) => {
      answer = res.writeHead(200, { 'Content-Type': 'application/json' })
    })
    node = createIpfsHttpNode(url, { deadlineMilliseconds: 1_000, listMilliseconds: 5_000 })
    // Only the client's deadlines use the fake clock. Connections run in real time.
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'performance', 'Date'] })
  })
  afterEach(() => {
    jest.useRealTimers()
    closeServices()
  })

  /** Creates lines about `count` further pins, all different. */
  function createPinLines(count: number): string {
    const hash = Buffer.alloc(32)
    return Array.from({ length: count }, () => {
      hash.writeUInt32BE((pinsSent += 1))
      return `{"Cid":"${CID.createV1(0x55, digest.create(0x12, hash)).toString()}","Type":"recursive"}\n`
    }).join('')
  }

  /** Sends lines about `count` pins, and waits until the client has read them. */
  async function send(count: number): Promise<void> {
    await until(() => answer !== undefined)
    answer!.write(createPinLines(count))
    await until(() => arrivedLines.mock.calls.length === pinsSent)
  }

  /** Lists pins, and returns their number or the error code. It catches an error at once, before the test awaits it. */
  function listOutcome(): Promise<number | string> {
    return node.listPins().then(
      (pins) => pins.size,
      (error: unknown) => (error as { code: string }).code
    )
  }

  it('accepts a list that is longer than any other response', async () => {
    const listed = listOutcome()
    await send(20_000)
    answer!.end()
    expect(await listed).toBe(20_000)
  })

  it('accepts a list that takes longer than the deadline of 1 s while lines arrive', async () => {
    const listed = listOutcome()
    for (let piece = 0; piece < 4; piece += 1) {
      await send(10)
      jest.advanceTimersByTime(999)
    }
    answer!.end()
    expect(await listed).toBe(40)
  })

  it('fails if no line arrives within the deadline', async () => {
    const listed = listOutcome()
    await send(10)
    jest.advanceTimersByTime(999)
    await send(10)
    jest.advanceTimersByTime(1_000)
    expect(await listed).toBe('ERR_IPFS_TIMEOUT')
  })

  it('fails after its total time limit of 5 s, even while lines arrive', async () => {
    const listed = listOutcome()
    for (let second = 0; second < 5; second += 1) {
      await send(1)
      jest.advanceTimersByTime(999)
    }
    await send(1)
    jest.advanceTimersByTime(5)
    expect(await listed).toBe('ERR_IPFS_TIMEOUT')
  })
})

/** Returns the lines that are logged if this listener serves the node's port. */
async function readLogLines(listener: RequestListener): Promise<string[]> {
  const lines: string[] = []
  const log = pino({ base: null, timestamp: false }, { write: (line: string) => lines.push(line) })
  await logLocalNodeHint(log, await serving(listener))
  return lines
}

describe('logLocalNodeHint', () => {
  afterEach(closeServices)

  it('names a local node and the variable IPFS_API_URL', async () => {
    const requests: string[] = []
    const [line = '', ...others] = await readLogLines((req, res) => {
      requests.push(`${req.method!} ${req.url!}`)
      res.end('{"Version":"0.42.0"}')
    })
    expect(requests).toEqual(['POST /api/v0/version'])
    const { msg } = JSON.parse(line) as { msg: string }
    expect(msg).toMatch(/^found an IPFS node at http:\/\/127\.0\.0\.1:\d+\. Set IPFS_API_URL=/)
    expect(others).toEqual([])
  })

  it.each<[string, RequestListener]>([
    ['another service', (_req, res) => void res.writeHead(404).end()],
    [
      'a server that redirects',
      (_req, res) => void res.writeHead(302, { Location: 'https://elsewhere.example' }).end()
    ],
    ['a server that stays silent for 1 s', () => undefined],
    ['a server that closes the connection', (req) => void req.socket.destroy()]
  ])('logs nothing if the port belongs to %s', async (_what, listener) => {
    expect(await readLogLines(listener)).toEqual([])
  })
})
