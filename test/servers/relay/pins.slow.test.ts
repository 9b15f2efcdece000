import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals'
import { setTimeout as pause } from 'node:timers/promises'
import request from 'supertest'
import { ipfsHttpNode, type IpfsHttpNode } from '../../../servers/ipfs/ipfs-rpc-client.js'
import { startFaultyNode, type FaultyIpfsNode } from '../../support/faulty-ipfs-node.js'
import { ipfsFaults } from '../../support/ipfs-faults.js'
import { startIpfsRpcServer, type IpfsRpcServer } from '../../support/ipfs-rpc-server.js'
import { getFile, logIn, postFile, startTestRelay, type TestRelay } from '../../support/relay-app.js'
import { until } from '../../support/until.js'
import { walletOf } from '../../support/wallet.js'

const wallet = walletOf(1)
const WEEK_SECONDS = 7 * 86_400
const HELLO_CID = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e'

let client: IpfsHttpNode
let relay: TestRelay

async function start(url: string): Promise<void> {
  client = ipfsHttpNode(url, { deadlineMilliseconds: 3_000 })
  relay = await startTestRelay({}, { node: client })
}

afterEach(async () => {
  client.close()
  await relay.end()
})

describe('the relay beside a real IPFS node', () => {
  let node: IpfsRpcServer

  beforeAll(async () => {
    node = await startIpfsRpcServer()
  })

  afterAll(() => node.stop())

  it('pins what is posted under the cid that the node computes as well, and unpins what ended', async () => {
    await start(node.url)
    const token = await logIn(relay, wallet)
    const others = await node.pins()
    const cids: string[] = []
    for (const file of ['hello world', '', 'é💥'.repeat(100_000), 'a'.repeat(1_048_576)]) {
      const { status, body } = await postFile(relay, token, file)
      expect(status).toBe(200)
      cids.push(body.cid)
    }
    await until(async () => (await relay.contents.countOpen()) === 0)
    expect(await node.pins()).toEqual([...others, ...cids].sort())
    relay.clock.seconds += WEEK_SECONDS
    await relay.contents.deleteExpiredFiles(relay.clock.seconds)
    // As the worker does every 10 s.
    await relay.restart()
    await until(async () => (await node.pins()).length === others.length)
    expect(await node.pins()).toEqual(others)
  })

  it('lists the node on /ready', async () => {
    await start(node.url)
    const { body } = await request(relay.listener).get('/ready').expect(200)
    expect(body.dependencies).toEqual({ store: 'ok', clock: 'ok', signer: 'ok', ipfs: 'ok' })
  })
})

describe('the relay beside an IPFS node that fails', () => {
  let node: FaultyIpfsNode

  beforeEach(async () => {
    node = await startFaultyNode({ slowMilliseconds: 5_000 })
    await start(node.url)
  })

  afterEach(() => node.stop())

  it.each(ipfsFaults.filter((fault) => fault !== 'answers other bytes'))(
    'because it %s takes each file, answers Pin-Status: pending, and pins it later',
    async (fault) => {
      const token = await logIn(relay, wallet)
      await node.fail(fault)
      const posted = await postFile(relay, token, 'hello world')
      expect([posted.status, posted.body.cid, posted.headers['pin-status']]).toEqual([200, HELLO_CID, 'pending'])
      expect((await getFile(relay, token, HELLO_CID)).text).toBe('{"file":"hello world"}')
      await node.heal()
      // A lease ends, and a minute later what was in doubt is done once more.
      await until(async () => {
        relay.clock.seconds += 60
        await relay.restart()
        await pause(50)
        return (await relay.contents.countOpen()) === 0
      })
      expect(node.pins).toEqual(new Set([HELLO_CID]))
      const again = await postFile(relay, await logIn(relay, wallet), 'hello world')
      expect([again.status, again.headers['pin-status']]).toEqual([200, undefined])
    }
  )

  it('is on /ready, and changes no status', async () => {
    await node.fail('refuses')
    const { body } = await request(relay.listener).get('/ready').expect(200)
    expect(body).toEqual({
      status: 'ready',
      dependencies: { store: 'ok', clock: 'ok', signer: 'ok', ipfs: 'unavailable' }
    })
  })
})
