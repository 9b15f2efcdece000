/**
 * P5 and P6: CPU time of the built relay, with its database or with an IPFS node that responds immediately. Compares it
 * with bare Express routes that only drain their body or send a prepared buffer.
 */
import { startFaultyNode } from '../support/faults/faulty-ipfs-node.js'
import { relayLogIn, relayPost } from '../support/servers/relay-client.js'
import { temporaryFolder } from '../support/fixtures/store-folder.js'
import { measure } from './harness.js'
import { assertStatus } from './http-client.js'
import { measureStepCost, startBin, startServer, type Step } from './servers.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const CLIENTS = 8
const KIBIBYTE = 1_024
const unit = 'µs CPU'

/** Number of pieces so far. Each file has new leaves of 256 KiB, because storing known content costs nothing. */
let pieces = 0
const newFile = (byteCount: number): string =>
  Array.from({ length: byteCount / 256 }, () => String((pieces += 1)).padStart(12, '0') + 'a'.repeat(244)).join('')

for (const store of ['embedded', 'node']) {
  const folder = temporaryFolder()
  const node = store === 'node' ? await startFaultyNode() : undefined
  const bare = await startServer('relay')
  const ours = await startBin('relay', {
    DATA_DIR: folder.path,
    PORT: '0',
    RELAY_MAX_BYTES_PER_DID: '1000000000000',
    RELAY_MAX_STORE_BYTES: '1000000000000',
    ...(node !== undefined && { IPFS_API_URL: node.url })
  })
  const { url } = ours.servers[0]!
  const token = await relayLogIn(url, createNumberedWallet(1))
  const headers = `Authorization: ${token}\r\n`
  const get =
    (path: string): Step =>
    async (connection) =>
      assertStatus(await connection.get(path, headers))
  for (const [size, byteCount, total, goal] of [
    ['1 KiB', KIBIBYTE, 4_000, '>= 0.65'],
    ['1 MiB', KIBIBYTE * KIBIBYTE, 150, '>= 0.60']
  ] as const) {
    const post: Step = async (connection) =>
      assertStatus(await connection.post('/file', { file: newFile(byteCount) }, headers))
    await measure(
      `P5 relay POST ${size}, store: ${store}`,
      { goal, unit },
      {
        bare: () => measureStepCost(bare, total, post, CLIENTS),
        ours: () => measureStepCost(ours, total, post, CLIENTS)
      }
    )
  }
  const cid = await relayPost(url, token, 'a'.repeat(KIBIBYTE * KIBIBYTE))
  await measure(
    `P6 relay GET 1 MiB, store: ${store}`,
    { goal: '>= 0.90', unit },
    {
      bare: () => measureStepCost(bare, 400, get('/file/ready'), CLIENTS),
      ours: () => measureStepCost(ours, 400, get(`/file/${cid}`), CLIENTS)
    }
  )
  await bare.stop()
  await ours.stop()
  await node?.stop()
  folder.remove()
}
