/**
 * The relay beside routes of bare Express that only drain their body (P5) or send a buffer that is ready (P6): CPU time of
 * the server process, medians of rounds that alternate. Prints, asserts nothing.
 *
 * The relay is the bin as it is built, with its database or with an IPFS node that answers at once.
 *
 * By itself: `npx tsx test/bench/bench-relay.ts [embedded|node]`
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startFaultyNode } from '../support/faulty-ipfs-node.js'
import { loginCredential } from '../support/relay-login.js'
import { walletOf } from '../support/wallet.js'
import { startBin } from './built-bin.js'
import { compare, costOf, type Step } from './contest.js'
import { Connection } from './http-client.js'
import { startChild, type BenchServer } from './variants.js'

const CLIENTS = 8
const KIBIBYTE = 1_024

type Variant = 'embedded' | 'node'

/** Small enough that no two leaves of 256 KiB are the same. */
const PIECE_BYTES = 256
let pieces = 0
/** Another file each time, in which all leaves differ, because the same once more is no work. */
export function newFile(byteCount: number): string {
  const piece = (): string => String((pieces += 1)).padStart(12, '0') + 'a'.repeat(PIECE_BYTES - 12)
  return Array.from({ length: byteCount / PIECE_BYTES }, piece).join('')
}

const poster =
  (byteCount: number, token: string): Step =>
  async (connection) => {
    const answer = await connection.post('/file', { file: newFile(byteCount) }, `Authorization: ${token}\r\n`)
    if (answer.status !== 200) throw new Error(`${answer.status} ${answer.body}`)
  }

const getter =
  (path: string, token: string): Step =>
  async (connection) => {
    const answer = await connection.get(path, `Authorization: ${token}\r\n`)
    if (answer.status !== 200) throw new Error(`${answer.status} ${answer.body}`)
  }

async function logIn(server: BenchServer): Promise<string> {
  const wallet = walletOf(1)
  const connection = await Connection.open(server.port)
  const asked = await connection.post('/request-auth', { did: wallet.did })
  const { challenge } = JSON.parse(asked.body) as { challenge: string }
  const { body } = await connection.post('/auth', { jwt: loginCredential(wallet, challenge) })
  connection.close()
  return (JSON.parse(body) as { token: string }).token
}

/** Starts the relay as it is shipped. */
async function startRelay(folder: string, env: Record<string, string>): Promise<BenchServer> {
  const { servers, takings, stop } = await startBin('relay', {
    DATA_DIR: folder,
    PORT: '0',
    RELAY_MAX_BYTES_PER_DID: '1000000000000',
    RELAY_MAX_STORE_BYTES: '1000000000000',
    ...env
  })
  return {
    port: Number(new URL(servers[0]!.url).port),
    cpuMicroseconds: async () => (await takings()).cpuMicroseconds,
    stop: () => void stop()
  }
}

/** P5 and P6 for a relay with one kind of store. */
export async function benchRelay(variant: Variant): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'did-auth-bench-'))
  const node = variant === 'node' ? await startFaultyNode() : undefined
  const bare = await startChild('bench-relay-server.ts', [])
  const ours = await startRelay(folder, node === undefined ? {} : { IPFS_API_URL: node.url })
  const token = await logIn(ours)
  for (const [size, byteCount, total, goal] of [
    ['1 KiB', KIBIBYTE, 4_000, '>= 0.65'],
    ['1 MiB', KIBIBYTE * KIBIBYTE, 150, '>= 0.60']
  ] as const) {
    const post = poster(byteCount, token)
    await compare({
      name: `P5 relay POST ${size}, store: ${variant}`,
      goal,
      bare: () => costOf(bare, total, post, CLIENTS),
      ours: () => costOf(ours, total, post, CLIENTS)
    })
  }
  const connection = await Connection.open(ours.port)
  const file = 'a'.repeat(KIBIBYTE * KIBIBYTE)
  const { body } = await connection.post('/file', { file }, `Authorization: ${token}\r\n`)
  connection.close()
  const { cid } = JSON.parse(body) as { cid: string }
  await compare({
    name: `P6 relay GET 1 MiB, store: ${variant}`,
    goal: '>= 0.90',
    bare: () => costOf(bare, 400, getter('/file/ready', token), CLIENTS),
    ours: () => costOf(ours, 400, getter(`/file/${cid}`, token), CLIENTS)
  })
  bare.stop()
  ours.stop()
  await node?.stop()
  rmSync(folder, { recursive: true, force: true })
}

if (process.argv[1]?.endsWith('bench-relay.ts') === true) {
  const chosen = process.argv[2] as Variant | undefined
  for (const variant of chosen === undefined ? (['embedded', 'node'] as const) : [chosen]) {
    await benchRelay(variant)
  }
}
