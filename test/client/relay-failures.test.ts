import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import type { ServerResponse } from 'node:http'
import { RelayClient, type RelayClientOptions } from 'express-did-auth-client/relay'
import { readFromGateway } from '../../src/client/relay/gateway.js'
import { readAll } from '../../src/client/wire/request.js'
import { importBlocks } from '../support/engines/unixfs-importer.js'
import {
  startAnsweringServer,
  expectClientError as expectError,
  type HttpAddress,
  listenAt,
  startRefusingServer,
  startServer
} from '../support/fixtures/client-error.js'
import { getFile, logIn, startTestRelay, type TestRelay } from '../support/servers/relay-app.js'
import { createHash } from 'node:crypto'
import { computeCid } from '../../src/client/relay/blocks.js'
import { createNumberedWallet, createWatchedWallet } from '../support/fixtures/fixtures.js'
import { sampled } from '../support/fixtures/time-factor.js'

const LARGE = new Uint8Array(700_000).fill(9)
const wallet = createWatchedWallet(createNumberedWallet(1))
const MISSING = `relay://bafkrei${'a'.repeat(52)}#${'A'.repeat(43)}`

let relay: TestRelay
let address: HttpAddress
let small: string
let large: string
/** Blocks of both files, by CID. */
const blocks = new Map<string, Uint8Array>()

beforeAll(async () => {
  relay = await startTestRelay({ RELAY_MAX_FILE_BYTES: '1500000', MAX_REQUESTS_PER_TIME_SLOT: '1000000' })
  address = await listenAt(relay.listener)
  small = await client().send('Hello')
  large = await client().send(LARGE)
  const token = await logIn(relay, createNumberedWallet(2))
  for (const uri of [small, large]) {
    const { file } = (await getFile(relay, token, uri.slice(8, 67))).body
    for (const { cid, bytes } of await importBlocks(Buffer.from(file))) blocks.set(cid, bytes)
  }
})

afterAll(async () => {
  await address.close()
  await relay.end()
})

function client(options: Partial<RelayClientOptions> = {}): RelayClient {
  return new RelayClient({ url: address.url, wallet, domain: 'relay.example', ...options })
}

/** Starts a gateway that serves the blocks, after `change`. */
function createClientWithGateways(
  change: (res: ServerResponse, bytes: Uint8Array, cid: string) => void
): Promise<string> {
  return startServer(({ url = '' }, res) => {
    const [, cid = ''] = /^\/ipfs\/(\w+)\?format=raw$/.exec(url) ?? []
    const bytes = blocks.get(cid)
    if (bytes === undefined) res.writeHead(404).end('not found')
    else change(res, bytes, cid)
  })
}

const honest = () => createClientWithGateways((res, bytes) => res.end(bytes))

describe('RelayClient at a failing relay', () => {
  it.each([
    [
      'HTML',
      startAnsweringServer(200, '<html>Welcome</html>'),
      { code: 'PROTOCOL', status: 200, message: expect.stringMatching(/^POST http\S+\/request-auth: 200 text\/html/) }
    ],
    ['other JSON', startAnsweringServer(200, '{"challenge":7}'), { code: 'PROTOCOL' }],
    ['null', startAnsweringServer(200, 'null'), { code: 'PROTOCOL' }],
    ['404 of a host that has no relay', startAnsweringServer(404, 'Not found'), { code: 'PROTOCOL', status: 404 }],
    [
      'a redirect',
      startAnsweringServer(307, '', { Location: 'http://127.0.0.1:1/' }),
      { code: 'PROTOCOL', status: 307 }
    ],
    [
      '429',
      startRefusingServer(429, 'ERR_TOO_MANY_REQUESTS'),
      { code: 'RATE_LIMITED', retryAfterSeconds: 7, retryable: true }
    ],
    [
      '503',
      startRefusingServer(503, 'ERR_STORE'),
      { code: 'UNAVAILABLE', retryAfterSeconds: 7, serverCode: 'ERR_STORE' }
    ],
    ['507', startRefusingServer(507, 'ERR_STORAGE_FULL'), { code: 'FULL' }],
    ['401', startRefusingServer(401, 'ERR_SIGNATURE'), { code: 'CHALLENGE', status: 401 }],
    [
      '401 for the network',
      startRefusingServer(401, 'ERR_DID_UNSUPPORTED'),
      {
        status: 401,
        userMessage: `The service refused the network of ${createNumberedWallet(1).did}. Contact its operator.`
      }
    ]
  ])('reports a response of %s', async (_what, listener, fields) => {
    const relayClient = client({ url: await startServer(listener) })
    await expectError(relayClient.send('Hello'), fields)
    await expectError(relayClient.open(small), fields)
  })

  it('sends neither a signature nor a credential for a challenge of two lines', async () => {
    const url = await startServer(startAnsweringServer(200, JSON.stringify({ challenge: 'ab\ncd' })))
    const [watched, prompts] = [createWatchedWallet(createNumberedWallet(1)), [] as string[]]
    for (const credential of [undefined, (challenge: string) => `${prompts.push(challenge)}`]) {
      const relayClient = client({ url, wallet: watched, ...(credential && { credential }) })
      await expectError(relayClient.send('Hello'), { code: 'PROTOCOL' })
    }
    expect([watched.signed, prompts]).toEqual([[], []])
  })

  it('reports a relay that is unreachable, slow, or stops mid-response as unavailable', async () => {
    const url = await startServer(() => undefined)
    const half = await startServer((_req, res) => {
      res.writeHead(200, { 'Content-Length': '100' }).write('{"challenge"')
    })
    const closed = await listenAt(() => undefined)
    await closed.close()
    for (const options of [{ url: closed.url }, { url, timeoutSeconds: 0.05 }, { url: half, timeoutSeconds: 0.2 }]) {
      await expectError(client(options).send('Hello'), { code: 'UNAVAILABLE', retryable: true })
    }
  })

  it('refuses content other than it requested', async () => {
    const url = await startServer(({ url: path = '' }, res) => {
      res.end(JSON.stringify({ challenge: 'a', token: 'b', cid: `bafkrei${'b'.repeat(52)}`, file: path }))
    })
    await expectError(client({ url }).send('Hello'), { code: 'MISMATCH' })
    await expectError(client({ url }).open(small), { code: 'MISMATCH' })
  })

  it('explains what is wrong with the content or the link', async () => {
    await expectError(client().send(new Uint8Array(2_000_000)), { code: 'TOO_LARGE', status: 413 })
    await expectError(client().open(MISSING), { code: 'NOT_FOUND', status: 404 })
    await expectError(client().open(small.replace(/.{43}$/, 'A'.repeat(43))), { code: 'KEY' })
    const taken = await client().send('taken down')
    await relay.contents.takeDown(taken.slice(8, 67), 'test', relay.clock.seconds)
    relay.clock.seconds += 1
    await expectError(client().open(taken), { code: 'TAKEN_DOWN', status: 451 })
  })

  it.each([
    '',
    'relay://',
    'https://app.example/open',
    `relay://bafkrei${'a'.repeat(52)}`,
    `${MISSING}A`,
    `${MISSING}?until=1`,
    MISSING.slice(0, -1),
    MISSING.replace('relay:', 'file:'),
    MISSING.replace('bafkrei', 'bafkREI'),
    `javascript:alert(1)#r=bafkrei${'a'.repeat(52)}.${'A'.repeat(43)}`,
    undefined,
    7
  ])('refuses an invalid link: %j', async (uri) => {
    await expectError(client().open(uri as string), { code: 'LINK' })
    expect(() => client().link(uri as string, 'https://app.example')).toThrow()
  })

  it('reports a declined prompt, and prompts again on the next call', async () => {
    const rejected = Object.assign(new Error('User rejected'), { code: 4001 })
    const wallet = createWatchedWallet(
      createNumberedWallet(1),
      () => wallet.signed.length === 1 && Promise.reject(rejected)
    )
    const relayClient = client({ wallet })
    await expectError(relayClient.open(small), { code: 'USER_REJECTED' })
    expect(await relayClient.open(small)).toBe('Hello')
    const { url } = address
    await expectError(new RelayClient({ url }).send('Hello'), { code: 'NO_WALLET' })
    await expectError(new RelayClient({ url }).open(small), { code: 'NOT_SIGNED_IN', status: 401 })
    await expectError(client({ domain: 'evil.example' }).open(small), { code: 'CHALLENGE', status: 401 })
  })

  it('rejects with the reason of the signal, before and during a wait', async () => {
    const relayClient = client({ url: await startServer(() => undefined) })
    const reason = new Error('enough')
    await expect(relayClient.send('Hello', { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    for (const work of [
      (signal: AbortSignal) => relayClient.open(small, { signal }),
      (signal: AbortSignal) => relayClient.send('Hello', { signal })
    ]) {
      const controller = new AbortController()
      const waiting = expect(work(controller.signal)).rejects.toBe(reason)
      controller.abort(reason)
      await waiting
    }
  })
})

const url = 'http://127.0.0.1:1'

/** Reads only from a gateway. A client would report the relay's error if all gateways fail. */
const read = (gateway: string, cid: string) =>
  readFromGateway({ url, read: readAll }, gateway, cid, new AbortController().signal)

describe('RelayClient with gateways', () => {
  const openLarge = async (gateways: string[]) => {
    const content = await new RelayClient({ url }).open(large, { gateways })
    return Buffer.compare(Buffer.from(content as Uint8Array), LARGE)
  }
  const readLarge = (gateway: string) => read(gateway, large.slice(8, 67))

  it('reads a small and a large file without a wallet if the relay is unavailable or refuses', async () => {
    const gateways = [await honest()]
    expect(await new RelayClient({ url }).open(small, { gateways })).toBe('Hello')
    expect(await new RelayClient({ url: address.url }).open(small, { gateways })).toBe('Hello')
    expect(await openLarge(gateways)).toBe(0)
  })

  it('uses the first gateway with the right bytes, despite gateways that lie, fail or are slow', async () => {
    const lying = await createClientWithGateways((res, bytes) => res.end(Buffer.from(bytes).fill(0, 5, 6)))
    const slow = await startServer(() => undefined)
    const failing = await startServer((_req, res) => res.writeHead(500).end())
    const gateways = [lying, slow, failing, 'http://127.0.0.1:1', 'no url', await honest()]
    expect(await openLarge(gateways)).toBe(0)
    expect(await client().open(small, { gateways: [lying, slow] })).toBe('Hello')
    const broken = client({ url: await startServer((_req, res) => res.writeHead(500).end()) })
    expect(await broken.open(small, { gateways: [await honest()] })).toBe('Hello')
  })

  it.each([
    [
      'changes a byte of a leaf',
      (bytes: Uint8Array, cid: string) => (cid.startsWith('bafk') ? Buffer.from(bytes).fill(0, 7, 8) : bytes)
    ],
    ['cuts a leaf', (bytes: Uint8Array, cid: string) => (cid.startsWith('bafk') ? bytes.subarray(1) : bytes)],
    [
      'changes the root',
      (bytes: Uint8Array, cid: string) => (cid.startsWith('bafy') ? Buffer.from(bytes).fill(0, 7, 8) : bytes)
    ],
    ['answers HTML', () => Buffer.from('<html>')],
    ['answers nothing', () => Buffer.alloc(0)]
  ])('rejects a gateway that %s', async (_what, change) => {
    const gateway = await createClientWithGateways((res, bytes, cid) => res.end(change(bytes, cid)))
    await expectError(readLarge(gateway), { code: 'MISMATCH' })
  })

  it('stops reading an endless response', async () => {
    const endless = await createClientWithGateways((res) => {
      const write = (): void => {
        while (!res.destroyed && res.write(Buffer.alloc(65_536)));
      }
      res.on('drain', write)
      write()
    })
    await expectError(readLarge(endless), { code: 'PROTOCOL' })
  })

  it('reports a missing file if the gateway does not have it', async () => {
    const empty = await startServer((_req, res) => res.writeHead(404).end())
    await expectError(readLarge(empty), { code: 'NOT_FOUND' })
  })

  it("throws the relay's error if all gateways fail", async () => {
    const failing = await startServer((_req, res) => res.writeHead(500).end())
    await expectError(client().open(MISSING, { gateways: [failing] }), { code: 'NOT_FOUND', status: 404 })
  })
})

/** Starts a gateway with one block, and records its requests. */
async function gatewayWith(
  cid: string,
  block: Uint8Array
): Promise<{ url: string; paths: string[]; accepts: unknown[]; maxPending: () => number }> {
  const paths: string[] = []
  const accepts: unknown[] = []
  let [pending, maxPending] = [0, 0]
  const address = await startServer((req, res) => {
    paths.push(String(req.url))
    accepts.push(req.headers.accept)
    pending += 1
    maxPending = Math.max(maxPending, pending)
    setTimeout(() => {
      pending -= 1
      if (String(req.url).includes(cid)) res.end(block)
      else res.writeHead(404).end()
    }, 5)
  })
  return { url: address, paths, accepts, maxPending: () => maxPending }
}

/** Returns the CID of a node that is built without a library, whose first content byte is changed. */
function computeNodeCid(node: Uint8Array): string {
  const bytes = Buffer.concat([Buffer.from([1, 0x70, 0x12, 32]), createHash('sha256').update(node).digest()])
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('')
  const letters = bits
    .match(/.{1,5}/g)!
    .map((five) => 'abcdefghijklmnopqrstuvwxyz234567'[parseInt(five.padEnd(5, '0'), 2)])
  return `b${letters.join('')}`
}

/** Returns a link in the encoding of nodes, to a block with a made-up hash. */
function link(index: number, codec = 0x55): Buffer {
  const hash = createHash('sha256').update(String(index)).digest()
  return Buffer.concat([Buffer.from([0x12, 38, 0x0a, 36, 1, codec, 0x12, 32]), hash])
}

const links = (count: number) => Buffer.concat(Array.from({ length: count }, (_, index) => link(index)))

describe('RelayClient with a gateway', () => {
  it.each([
    ['many empty links', Buffer.from('1200'.repeat(sampled(1_024, 131_072)), 'hex')],
    ['one link more than the nodes of this package have', links(175)],
    ['a link of another hash than SHA2-256', Buffer.concat([link(1), Buffer.from([0x12, 4, 0x0a, 2, 1, 0x55])])],
    ['a link of another codec', Buffer.concat([link(1), link(2, 0x71)])]
  ])('requests nothing more after a root with %s', async (_what, root) => {
    const cid = computeNodeCid(root)
    const gateway = await gatewayWith(cid, root)
    await expectError(read(gateway.url, cid), { code: 'MISMATCH' })
    expect(gateway.paths).toHaveLength(1)
  })

  it('requests a few blocks at once', async () => {
    const root = links(174)
    const cid = computeNodeCid(root)
    const gateway = await gatewayWith(cid, root)
    await expectError(read(gateway.url, cid), { code: 'NOT_FOUND' })
    expect(gateway.maxPending()).toBeLessThanOrEqual(8)
  })

  it('requests a block in both ways, and normalizes a URL that ends in a slash', async () => {
    const block = Buffer.from('abc')
    const cid = await computeCid(Uint8Array.from(block))
    const gateway = await gatewayWith(cid, block)
    expect(await read(`${gateway.url}/`, cid)).toEqual(Uint8Array.from(block))
    expect(gateway.paths).toEqual([`/ipfs/${cid}?format=raw`])
    expect(gateway.accepts).toEqual(['application/vnd.ipld.raw'])
  })
})

describe('RelayClient refuses the invalid argument', () => {
  it.each(['none', '', 'relay.example.com', '/relay', 'ftp://relay.example', undefined, 7])('url %j', (url) =>
    expect(() => new RelayClient({ url: url as string })).toThrow(new TypeError(`${url}: not http(s)`))
  )

  it.each([new ArrayBuffer(8), [1, 2], 5, new Blob(['a']), undefined])(
    'content that is neither text, bytes nor a file: %#',
    (content) => {
      const work = new RelayClient({ url }).send(content as never)
      return expect(work).rejects.toEqual(new TypeError('content: expected a string, a Uint8Array or a File'))
    }
  )
})
