/**
 * Slow clients of the relay: 200 uploads and 200 readers of 8 MiB at 100 kB/s. Memory of the process stays below 200 MiB,
 * and no client that keeps the minimum data rate is refused. One line; a missed goal sets the exit code. The p99 of
 * `/health` is printed beside it.
 *
 * Two minutes: `npm run figures -- slow-clients [clients of each kind, default 200]`
 */
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { relayLogIn, relayPost } from '../support/relay-client.js'
import { temporaryFolder } from '../support/store-folder.js'
import { walletOf } from '../support/wallet.js'
import { quantile, reportFigure } from './harness.js'
import { newFile } from './new-file.js'
import { startBin } from './servers.js'

const CLIENTS = Number(process.argv.slice(2).find((word) => /^\d+$/.test(word)) ?? 200)
const FILE_BYTES = 8_388_608
const TICK_MILLISECONDS = 200
const BYTES_PER_TICK = (100_000 * TICK_MILLISECONDS) / 1_000
/** A DID may post 64 MiB a day. */
const FILES_PER_DID = 4
const MOST_MEBIBYTES = 200

const folder = temporaryFolder()
const relay = await startBin('relay', { DATA_DIR: folder.path, PORT: '0' })
const { url } = relay.servers[0]!
const outcomes = new Map<string, number>()

const open = (): Socket => connect(relay.port, '127.0.0.1').setNoDelay(true)

/** Resolves with status and length of the answer, when all of it is there or the connection ends. */
function answerOf(socket: Socket): Promise<string> {
  let [head, received] = ['', 0]
  return new Promise((resolve) => {
    const end = (): void => {
      resolve(`${head.slice(9, 12)} ${received}`)
    }
    socket.on('data', (piece: Buffer) => {
      received += piece.length
      if (head.length < 2_048) head += piece.toString('latin1', 0, 2_048)
      const headBytes = head.indexOf('\r\n\r\n') + 4
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? Infinity)
      if (headBytes > 3 && received >= headBytes + length) {
        received -= headBytes
        end()
      }
    })
    socket.on('close', end).on('error', end)
  })
}

/** All but the beginning of every upload. */
const rest = Buffer.from(`${newFile(FILE_BYTES - 256)}"}`)

async function upload(token: string): Promise<void> {
  const socket = open()
  const answer = answerOf(socket)
  const begin = `{"file":"${newFile(256)}`
  const headers = `Host: a\r\nAuthorization: ${token}\r\nContent-Type: application/json`
  socket.write(`POST /file HTTP/1.1\r\n${headers}\r\nContent-Length: ${begin.length + rest.length}\r\n\r\n${begin}`)
  for (let sent = 0; sent < rest.length && !socket.destroyed; sent += BYTES_PER_TICK) {
    socket.write(rest.subarray(sent, sent + BYTES_PER_TICK))
    await pause(TICK_MILLISECONDS)
  }
  count(`POST ${(await answer).slice(0, 3)}`)
  socket.destroy()
}

async function read(token: string, cid: string): Promise<void> {
  const socket = open()
  const answer = answerOf(socket)
  socket.write(`GET /file/${cid} HTTP/1.1\r\nHost: a\r\nAuthorization: ${token}\r\n\r\n`)
  let [isDone, allowed] = [false, 0]
  void answer.then(() => (isDone = true))
  // A socket reads 64 KiB at a time, and waits for what it is ahead.
  const slowDown = (): unknown => socket.bytesRead > allowed && socket.pause()
  socket.on('data', slowDown)
  for (; !isDone; allowed += BYTES_PER_TICK) {
    if (socket.bytesRead <= allowed) socket.resume()
    await pause(TICK_MILLISECONDS)
  }
  const [status, bytes] = (await answer).split(' ')
  count(`GET ${status} ${Number(bytes) === FILE_BYTES + '{"file":""}'.length ? 'whole' : 'cut'}`)
  socket.destroy()
}

function count(outcome: string): void {
  outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
}

/** Samples until the work is done. */
async function watch(work: Promise<unknown>): Promise<{ mostMebibytes: number; p99: number }> {
  let [isDone, mostBytes] = [false, 0]
  const milliseconds: number[] = []
  void work.finally(() => (isDone = true))
  while (!isDone) {
    const startedAt = performance.now()
    await (await fetch(`${url}/health`)).text()
    milliseconds.push(performance.now() - startedAt)
    mostBytes = Math.max(mostBytes, (await relay.usage()).rss)
    await pause(100)
  }
  return { mostMebibytes: mostBytes / 2 ** 20, p99: quantile(milliseconds, 0.99) }
}

const dids = Math.ceil(CLIENTS / FILES_PER_DID)
const tokens = await Promise.all(Array.from({ length: dids }, (_, index) => relayLogIn(url, walletOf(index + 1))))
const cids: string[] = []
for (const token of tokens.slice(0, 20)) cids.push(await relayPost(url, token, newFile(FILE_BYTES)))
const quietMebibytes = (await relay.usage()).rss / 2 ** 20
const clients = Array.from({ length: CLIENTS }, async (_, index) => {
  // Clients do not begin in one moment.
  await pause((index * 5_000) / CLIENTS)
  const token = tokens[index % dids]!
  await Promise.all([upload(token), read(token, cids[index % cids.length]!)])
})
const { mostMebibytes, p99 } = await watch(Promise.all(clients))
await relay.stop()
folder.remove()

const isServed = outcomes.get('POST 200') === CLIENTS && outcomes.get('GET 200 whole') === CLIENTS
const isGood = isServed && mostMebibytes <= MOST_MEBIBYTES
const told = [...outcomes].map(([outcome, times]) => `${times} × ${outcome}`).join(', ')
reportFigure(
  'slow clients',
  `${CLIENTS} uploads and ${CLIENTS} readers at 100 kB/s: ${told}; memory ` +
    `${quietMebibytes.toFixed(0)} → ${mostMebibytes.toFixed(0)} MiB (goal ${MOST_MEBIBYTES}); /health p99 ${p99.toFixed(0)} ms`,
  isGood
)
