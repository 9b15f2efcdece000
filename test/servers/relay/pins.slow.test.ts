import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { createIpfsHttpNode, type IpfsHttpNode } from '../../../servers/ipfs/ipfs-rpc-client.js'
import { startIpfsRpcServer, type IpfsRpcServer } from '../../support/engines/ipfs-rpc-server.js'
import { logIn, postFile, startTestRelay, type TestRelay } from '../../support/servers/relay-app.js'
import { until } from '../../support/fixtures/until.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const WEEK_SECONDS = 7 * 86_400

let client: IpfsHttpNode
let relay: TestRelay

async function start(url: string): Promise<void> {
  client = createIpfsHttpNode(url, { deadlineMilliseconds: 3_000 })
  relay = await startTestRelay({}, { node: client })
}

afterEach(async () => {
  client.close()
  await relay.end()
})

describe('the relay with a real IPFS node', () => {
  let node: IpfsRpcServer

  beforeAll(async () => {
    node = await startIpfsRpcServer()
  })

  afterAll(() => node.stop())

  it('pins posted files under the CIDs that the node computes, and unpins expired files', async () => {
    await start(node.url)
    const readDependencies = async (): Promise<Record<string, string>> =>
      (await request(relay.listener).get('/ready')).body.dependencies
    await until(async () => (await readDependencies()).ipfs === 'ok')
    const token = await logIn(relay, wallet)
    const foreignPins = await node.pins()
    const cids: string[] = []
    for (const file of ['hello world', '', 'é💥'.repeat(100_000), 'a'.repeat(1_048_576)]) {
      const { status, body } = await postFile(relay, token, file)
      expect(status).toBe(200)
      cids.push(body.cid)
    }
    await until(async () => (await relay.contents.countOpen()) === 0)
    expect(await node.pins()).toEqual([...foreignPins, ...cids].sort())
    relay.clock.seconds += WEEK_SECONDS
    await relay.contents.deleteExpiredFiles(relay.clock.seconds)
    // The restart runs the pin worker at once, which otherwise runs every 10 s.
    await relay.restart()
    await until(async () => (await node.pins()).length === foreignPins.length)
    expect(await node.pins()).toEqual(foreignPins)
  })
})
