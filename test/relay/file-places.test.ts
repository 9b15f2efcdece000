import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { setImmediate as nextRound } from 'node:timers/promises'
import { NodeFileStore } from '../../servers/relay/node-file-store.js'
import { ipfsHttpNode } from '../../servers/shared/ipfs/ipfs-http-node.js'
import { startFaultyNode, type FaultyIpfsNode } from '../support/faulty-ipfs-node.js'
import { getFile, logIn, postFile, startTestRelay, TestClock, type TestRelay } from '../support/relay-app.js'
import { temporaryFolder } from '../support/store-folder.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const DAY_SECONDS = 86_400
const HELLO_CID = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e'

const folder = { path: '', remove: (): void => undefined }
let clock: TestClock
let node: FaultyIpfsNode
let end: () => Promise<void> = () => Promise.resolve()
let relay: TestRelay

/** The relay on the folder of this test, in place of the one that ran there before. */
async function start(isOnNode: boolean, env: Record<string, string> = {}): Promise<void> {
  await end()
  const client = ipfsHttpNode(node.url, { deadlineMilliseconds: 3_000 })
  relay = await startTestRelay(env, {
    clock,
    folder: folder.path,
    ...(isOnNode && {
      node: client,
      files: (database, { RELAY_STORE_TTL_SECONDS: ttlSeconds, RELAY_MAX_STORE_BYTES: maxBytes }) =>
        new NodeFileStore(database, client, { ttlSeconds, maxBytes })
    })
  })
  end = async () => {
    client.close()
    await relay.end()
  }
}

const post = async (file: string) => (await postFile(relay, await logIn(relay, wallet), file)).status
const get = async (cid: string) => (await getFile(relay, await logIn(relay, wallet), cid)).body as unknown
const places = () => relay.database.prepare('SELECT place FROM files ORDER BY place').pluck().all()
const blocks = () => relay.database.prepare('SELECT count(*) FROM blocks').pluck().get()

beforeEach(async () => {
  Object.assign(folder, temporaryFolder())
  clock = new TestClock()
  node = await startFaultyNode()
})

afterEach(async () => {
  await end()
  end = () => Promise.resolve()
  await node.stop()
  folder.remove()
})

describe('a relay whose files were on a node, and are now in its own database', () => {
  it('stores here what is posted again, and has it after a restart', async () => {
    await start(true)
    expect(await post('hello world')).toBe(200)
    await start(false)
    expect(await get(HELLO_CID)).toEqual({})
    expect(await post('hello world')).toBe(200)
    expect([places(), blocks()]).toEqual([['here', 'node'], 1])
    await start(false)
    expect(await get(HELLO_CID)).toEqual({ file: 'hello world' })
  })

  it('counts both places, and leaves what is on the node until there is a node again', async () => {
    await start(true, { RELAY_MAX_STORE_BYTES: '1039' })
    expect(await post('hello world')).toBe(200)
    await start(false, { RELAY_MAX_STORE_BYTES: '1039' })
    expect([await post('12345'), await post('1234')]).toEqual([507, 200])
    clock.seconds += 30 * DAY_SECONDS
    await start(false)
    while (places().length === 2) await nextRound()
    expect([places(), blocks(), node.pins.size]).toEqual([['node'], 0, 1])
    await start(true)
    while (places().length > 0) await nextRound()
    expect(node.pins.size).toBe(0)
  })
})

describe('a relay whose files were in its own database, and are now on a node', () => {
  it('has them after a restart, and puts what is posted again on the node', async () => {
    await start(false)
    await post('hello world')
    await start(true)
    expect(await get(HELLO_CID)).toEqual({ file: 'hello world' })
    expect(await post('hello world')).toBe(200)
    expect([places(), [...node.pins]]).toEqual([['here', 'node'], [HELLO_CID]])
  })

  it('lets go of their blocks after their time, also while the node is away', async () => {
    await start(false)
    await post('hello world')
    clock.seconds += 30 * DAY_SECONDS
    await node.fail('refuses')
    await start(true)
    while (places().length > 0) await nextRound()
    expect(blocks()).toBe(0)
  })
})
