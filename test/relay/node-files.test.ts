import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { setTimeout as pause } from 'node:timers/promises'
import request from 'supertest'
import { NodeFileStore } from '../../servers/relay/node-file-store.js'
import { ipfsHttpNode, type IpfsHttpNode } from '../../servers/shared/ipfs/ipfs-http-node.js'
import { startFaultyNode, type FaultyIpfsNode } from '../support/faulty-ipfs-node.js'
import { faultsAfter, faultsBefore, ipfsFaults, type IpfsFault } from '../support/ipfs-faults.js'
import { startIpfsRpcServer, type IpfsRpcServer } from '../support/ipfs-rpc-server.js'
import {
  getFile,
  logIn,
  postFile,
  startTestRelay,
  TestClock,
  type TestRelay,
  type TestRelayOptions
} from '../support/relay-app.js'
import { temporaryFolder } from '../support/store-folder.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const DAY_SECONDS = 86_400
const HELLO_CID = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e'

jest.setTimeout(30_000)

const folder = { path: '', remove: (): void => undefined }
let clock = new TestClock()
let client: IpfsHttpNode
let relay: TestRelay

/** A relay with the node at a URL, on the folder of this test. */
async function start(
  url: string,
  env: Record<string, string> = {},
  options: TestRelayOptions = {},
  deadlineMilliseconds = 1_000
): Promise<void> {
  client = ipfsHttpNode(url, { deadlineMilliseconds })
  relay = await startTestRelay(env, {
    clock,
    folder: folder.path,
    node: client,
    files: (database, { RELAY_STORE_TTL_SECONDS: ttlSeconds, RELAY_MAX_STORE_BYTES: maxBytes }) =>
      new NodeFileStore(database, client, { ttlSeconds, maxBytes }),
    ...options
  })
}

async function end(): Promise<void> {
  client.close()
  await relay.end()
}

const rows = () => relay.database.prepare('SELECT count(*) FROM files').pluck().get()

async function until(isDone: () => unknown): Promise<void> {
  while (!(await isDone())) await pause(5)
}

beforeEach(() => {
  Object.assign(folder, temporaryFolder())
  clock = new TestClock()
})

afterEach(async () => {
  await end()
  folder.remove()
})

describe('the relay on a real IPFS node', () => {
  let node: IpfsRpcServer

  beforeAll(async () => {
    node = await startIpfsRpcServer()
  })

  afterAll(() => node.stop())

  it('pins what is posted, under the cid that the node computes as well, and unpins it after 30 days', async () => {
    await start(node.url, {}, {}, 10_000)
    const token = await logIn(relay, wallet)
    const others = await node.pins()
    const cids: string[] = []
    for (const file of ['hello world', '', 'é💥'.repeat(100_000), 'a'.repeat(1_048_576)]) {
      const { status, body } = await postFile(relay, token, file)
      expect(status).toBe(200)
      expect((await getFile(relay, token, body.cid)).body).toEqual({ file })
      cids.push(body.cid)
    }
    expect(await node.pins()).toEqual([...others, ...cids].sort())
    await end()
    clock.seconds += 30 * DAY_SECONDS
    await start(node.url, {}, {}, 10_000)
    await until(() => rows() === 0)
    expect(await node.pins()).toEqual(others)
  })

  it('lists the node on /ready', async () => {
    await start(node.url, {}, {}, 10_000)
    const { body } = await request(relay.listener).get('/ready').expect(200)
    expect(body.dependencies).toEqual({ store: 'ok', signer: 'ok', ipfs: 'ok' })
  })
})

describe('the relay on a node in trouble', () => {
  let node: FaultyIpfsNode

  beforeEach(async () => {
    node = await startFaultyNode()
    await start(node.url)
  })

  afterEach(() => node.stop())

  /** What is allowed at all: the documented answers. */
  const documented: Readonly<Record<number, string>> = {
    502: 'IPFS node answered nonsense',
    503: 'IPFS node unavailable, try again',
    504: 'IPFS node too slow, try again'
  }
  const expected: Partial<Record<IpfsFault, number>> = {
    refuses: 503,
    resets: 503,
    'is silent': 504,
    'is slow': 504,
    'answers another cid': 502,
    'answers no cid': 502
  }

  it.each(ipfsFaults.filter((fault) => fault !== 'answers other bytes'))(
    'that %s answers as documented, in time, and keeps nothing',
    async (fault) => {
      const token = await logIn(relay, wallet)
      await node.fail(fault)
      const startedAt = performance.now()
      const { status, text, headers } = await postFile(relay, token, 'hello world')
      expect(performance.now() - startedAt).toBeLessThan(4_000)
      expect(text).toBe(documented[status])
      if (expected[fault] !== undefined) expect(status).toBe(expected[fault])
      expect(headers['retry-after']).toBe(status === 502 ? undefined : '5')
      await node.heal()
      expect((await getFile(relay, token, HELLO_CID)).status).toBe(404)
      expect((await postFile(relay, token, 'another')).status).toBe(200)
      expect(await getFile(relay, token, HELLO_CID)).toMatchObject({ status: 404 })
    }
  )

  it.each([faultsBefore[0], faultsAfter[0], 'answers another cid' as const])(
    'that %s, and may have pinned what was refused, is asked to unpin it 10 minutes later',
    async (fault) => {
      const token = await logIn(relay, wallet)
      await node.fail(fault)
      expect((await postFile(relay, token, 'hello world')).status).toBeGreaterThanOrEqual(502)
      await node.heal()
      await postFile(relay, token, 'another')
      expect(rows()).toBe(2)
      clock.seconds += 599
      await end()
      await start(node.url)
      await pause(50)
      expect(rows()).toBe(2)
      clock.seconds += 1
      await end()
      await start(node.url)
      await until(() => rows() === 1)
      expect(node.pins.has(HELLO_CID)).toBe(false)
      expect(node.pins.size).toBe(1)
    }
  )

  it('keeps what was stored before, although it could not be stored once more', async () => {
    const token = await logIn(relay, wallet)
    await postFile(relay, token, 'hello world')
    await node.fail('answers another cid')
    expect((await postFile(relay, token, 'hello world')).status).toBe(502)
    await node.heal()
    expect((await getFile(relay, token, HELLO_CID)).status).toBe(200)
    clock.seconds += 600
    await end()
    await start(node.url)
    await pause(50)
    expect([rows(), node.pins.has(HELLO_CID)]).toEqual([1, true])
  })

  it.each(ipfsFaults.filter((fault) => fault !== 'answers other bytes'))(
    'that %s at a sweep is asked again at the next, and nothing is forgotten before',
    async (fault) => {
      await postFile(relay, await logIn(relay, wallet), 'hello world')
      clock.seconds += 30 * DAY_SECONDS
      await end()
      await node.fail(fault)
      await start(node.url)
      await until(() => relay.log().some(({ event }) => event === 'sweep-failed'))
      expect(rows()).toBe(1)
      await end()
      await node.heal()
      await start(node.url)
      await until(() => rows() === 0)
      expect(node.pins.size).toBe(0)
    }
  )

  it('that answers nonsense for one file is still asked about the next', async () => {
    const token = await logIn(relay, wallet)
    for (const file of ['hello world', 'another', 'third']) await postFile(relay, token, file)
    clock.seconds += 30 * DAY_SECONDS
    await end()
    await node.fail('answers another cid')
    await start(node.url)
    await until(() => relay.log().some(({ event }) => event === 'sweep-failed'))
    expect([rows(), node.calls['pin/rm']]).toEqual([3, 3])
  })

  it('leaves a pin alone that the sweep finds gone already', async () => {
    await postFile(relay, await logIn(relay, wallet), 'hello world')
    node.pins.clear()
    clock.seconds += 30 * DAY_SECONDS
    await end()
    await start(node.url)
    await until(() => rows() === 0)
  })

  it('bounds what all keep together', async () => {
    await end()
    await start(node.url, { RELAY_MAX_STORE_BYTES: '523' })
    const token = await logIn(relay, wallet)
    expect((await postFile(relay, token, 'hello world')).status).toBe(200)
    const { status, text } = await postFile(relay, token, 'b')
    expect([status, text]).toEqual([507, 'Storage full: 523 of 523 bytes in use by all, 513 needed'])
    expect(node.calls.add).toBe(1)
  })

  it('is on /ready, and changes no status', async () => {
    for (const fault of ['refuses', 'is silent', 'answers 500'] as const) {
      await node.fail(fault)
      await end()
      await start(node.url)
      const { body } = await request(relay.listener).get('/ready').expect(200)
      expect(body).toEqual({ status: 'ready', dependencies: { store: 'ok', signer: 'ok', ipfs: 'unavailable' } })
    }
  })

  it('leaves memory to begin empty after a restart', async () => {
    await postFile(relay, await logIn(relay, wallet), 'hello world')
    await end()
    await start(node.url)
    expect((await getFile(relay, await logIn(relay, wallet), HELLO_CID)).status).toBe(404)
  })

  it('answers 503 to a file that is being unpinned just now', async () => {
    await postFile(relay, await logIn(relay, wallet), 'hello world')
    clock.seconds += 30 * DAY_SECONDS
    await end()
    await node.fail('is silent')
    await start(node.url)
    await until(() => node.calls['pin/rm'] === 1)
    const { status, text } = await postFile(relay, await logIn(relay, wallet), 'hello world')
    expect([status, text]).toEqual([503, 'Busy, try again'])
  })
})
