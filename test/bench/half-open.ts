/** F13: 500 connections that send nothing, or half a request, while other clients send requests. Takes 30 s. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { logIn, me } from '../support/servers/server-client.js'
import { startServer } from '../support/servers/server-process.js'
import { temporaryFolder } from '../support/fixtures/store-folder.js'
import { computeQuantile, reportFigure } from './harness.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const CONNECTIONS = 500
const TEXTS = [
  '',
  'POST /auth HTTP/1.1\r\nHo',
  'POST /auth HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{'
]

async function openConnection(port: number, text: string): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' }).resume()
  // A reset also ends the connection.
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  socket.write(text)
  return socket
}

const folder = temporaryFolder()
const env = { DATA_DIR: folder.path, SERVICE_URL: 'https://auth.example', LOG_LEVEL: 'warn' }
const server = await startServer({ ...env, MAX_REQUESTS_PER_TIME_SLOT: '1000000' })
const { accessToken } = await logIn(server.url, createNumberedWallet(1), 'auth.example')
const port = Number(new URL(server.url).port)
const startedAt = performance.now()
let [open, closedSeconds] = [CONNECTIONS, 0]
const sockets = await Promise.all(Array.from({ length: open }, (_, index) => openConnection(port, TEXTS[index % 3]!)))
for (const socket of sockets) {
  socket.once('close', () => {
    open -= 1
    closedSeconds = (performance.now() - startedAt) / 1_000
  })
}
const times: number[] = []
while (open > 0 && performance.now() - startedAt < 20_000) {
  const sentAt = performance.now()
  const { status } = await me(server.url, accessToken)
  times.push(status === 200 ? performance.now() - sentAt : Infinity)
}
for (const socket of sockets) socket.destroy()
server.signal('SIGKILL')
await server.ended
folder.remove()
const p99 = computeQuantile(times, 0.99)
reportFigure(
  'F13',
  `${CONNECTIONS} half-open connections: p99 of others ${p99.toFixed(0)} ms, all closed in ${closedSeconds.toFixed(1)} s`,
  open === 0 && p99 < 250 && closedSeconds <= 16
)
