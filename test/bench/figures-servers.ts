/**
 * The figures of the auth server as a process: F4 (kill -9 under load), F8 (malformed requests), F13 (half-open
 * connections), F14 (SIGTERM under load), F15 (secrets in the log) and F17 (no RPC node). One line each; one that
 * misses its goal sets the exit code.
 *
 * Some minutes: `npm run figures -- servers [rounds of F4 and F14, default 100]`
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { malformedRequests } from '../support/malformed-requests.js'
import { runMalformed } from '../support/malformed-run.js'
import { plantSecrets } from '../support/planted-secrets.js'
import { deadRpcUrl } from '../support/rpc-node.js'
import { ask, logIn, me } from '../support/server-client.js'
import { findLosses, startLoad } from '../support/server-load.js'
import { ServerProcesses } from '../support/server-process.js'
import { temporaryFolder } from '../support/store-folder.js'
import { walletOf } from '../support/wallet.js'
import { reportFigure } from './report-figure.js'

const domain = 'auth.example'
const wallet = walletOf(1)

const report = (figure: string, text: string, isMet: boolean): void => {
  reportFigure(figure, `auth server: ${text}`, isMet)
}

/** Runs a figure with servers on a folder of its own. */
async function withServers(env: Record<string, string>, use: (servers: ServerProcesses) => Promise<void>) {
  const folder = temporaryFolder()
  const servers = new ServerProcesses({
    DATA_DIR: folder.path,
    SERVICE_URL: `https://${domain}`,
    LOG_LEVEL: 'warn',
    MAX_REQUESTS_PER_TIME_SLOT: '1000000',
    ...env
  })
  try {
    await use(servers)
  } finally {
    await servers.killAll()
    folder.remove()
  }
}

const describe = (faults: readonly string[]): string =>
  faults.length === 0 ? 'no fault' : `${faults.length} faults, the first: ${faults[0]}`

/** F4 and F14: the process is ended under load, round after round on one folder; nothing acknowledged may be lost. */
export async function endUnderLoad(figure: 'F4' | 'F14', rounds: number): Promise<void> {
  const signal = figure === 'F4' ? 'SIGKILL' : 'SIGTERM'
  await withServers({}, async (servers) => {
    const faults: string[] = []
    let [acknowledged, slowestStart, slowestEnd, fewestWrites] = [0, 0, 0, Infinity]
    let server = await servers.start()
    for (let round = 0; round < rounds; round += 1) {
      const load = startLoad(server.url, domain)
      while (load.acknowledged() === 0) await pause(5)
      const startedAt = performance.now()
      await pause(300 + 5 * (round % 100))
      const endedAt = performance.now()
      fewestWrites = Math.min(fewestWrites, (load.acknowledged() * 1000) / (endedAt - startedAt))
      server.signal(signal)
      const { code, stderr } = await server.ended
      slowestEnd = Math.max(slowestEnd, performance.now() - endedAt)
      await load.stop()
      acknowledged += load.acknowledged()
      if (figure === 'F14' && code !== 0) faults.push(`exit code ${String(code)}: ${stderr}`)
      server = await servers.start()
      slowestStart = Math.max(slowestStart, server.startMilliseconds)
      faults.push(...load.wrongAnswers, ...(await findLosses(server.url, load.sessions)))
    }
    const isInTime = figure === 'F4' ? slowestStart <= 5_000 && fewestWrites >= 50 : slowestEnd <= 10_000
    const times =
      figure === 'F4'
        ? `ready again in at most ${slowestStart.toFixed(0)} ms`
        : `exit 0 in at most ${slowestEnd.toFixed(0)} ms`
    const load = `at least ${fewestWrites.toFixed(0)} writes/s, ${acknowledged} acknowledged`
    report(
      figure,
      `${signal} under load, ${rounds} rounds, ${load}, ${times}: ${describe(faults)}`,
      faults.length === 0 && isInTime
    )
  })
}

/** F8: all malformed requests, tokens in bodies and in cookies. */
export async function malformedFigure(): Promise<void> {
  const faults: string[] = []
  let sent = 0
  let isAlive = true
  for (const USE_COOKIES of ['false', 'true']) {
    await withServers({ USE_COOKIES }, async (servers) => {
      const server = await servers.start()
      const issuing = USE_COOKIES === 'true' ? await servers.start({ USE_COOKIES: 'false' }) : server
      const tokens = await logIn(issuing.url, wallet, domain)
      const sig = wallet.personalSign('another message')
      const good = { did: wallet.did, sig, ...tokens, credentialJwt: 'eyJhbGciOiJFUzI1NksifQ.e30.AAAA' }
      const run = await runMalformed(Number(new URL(server.url).port), malformedRequests(good), 5_000)
      sent += run.sent
      faults.push(...run.faults, ...Array<string>(run.pages).fill('a page of Express'))
      if (server.output().includes('"level":"error"')) faults.push('an error in the log')
      isAlive &&= (await me(issuing.url, tokens.accessToken)).status === 200
      isAlive &&= (await ask(`${server.url}/ready`)).status === 200
    })
  }
  const text = `malformed requests, ${sent}: ${describe(faults)}, ${isAlive ? 'alive' : 'dead'}`
  report('F8', text, faults.length === 0 && isAlive && sent >= 2_000)
}

/** F13: connections that say nothing, or half of what they should, while others ask. */
export async function halfOpenFigure(): Promise<void> {
  await withServers({}, async (servers) => {
    const { url } = await servers.start()
    const { accessToken } = await logIn(url, wallet, domain)
    const texts = [
      '',
      'POST /auth HTTP/1.1\r\nHo',
      'POST /auth HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{'
    ]
    const port = Number(new URL(url).port)
    const startedAt = performance.now()
    let open = 500
    let lastClosed = 0
    const sockets = await Promise.all(Array.from({ length: open }, (_, index) => halfOpen(port, texts[index % 3]!)))
    const closed = sockets.map(async (socket) => {
      await once(socket, 'close')
      open -= 1
      lastClosed = performance.now() - startedAt
    })
    const times: number[] = []
    while (open > 0 && performance.now() - startedAt < 20_000) {
      const askedAt = performance.now()
      if ((await me(url, accessToken)).status !== 200) times.push(Infinity)
      times.push(performance.now() - askedAt)
    }
    for (const socket of sockets) socket.destroy()
    await Promise.all(closed)
    const p99 = times.sort((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? Infinity
    const text = `500 half-open connections: p99 of others ${p99.toFixed(0)} ms, all closed in ${(lastClosed / 1000).toFixed(1)} s`
    report('F13', text, open === 0 && p99 < 250 && lastClosed <= 16_000)
  })
}

async function halfOpen(port: number, text: string): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' }).resume()
  // A reset is an end as well.
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  socket.write(text)
  return socket
}

/** F15: what passed through must not be in the log, at its most talkative. */
export async function secretsFigure(): Promise<void> {
  const CHALLENGE_SECRET = 'the secret of challenges, which no one reads'
  await withServers({ CHALLENGE_SECRET, LOG_LEVEL: 'debug' }, async (servers) => {
    const server = await servers.start()
    const secrets = [...(await plantSecrets(server.url, domain)), CHALLENGE_SECRET]
    const found = secrets.filter((secret) => server.output().includes(secret))
    const text = `${found.length} of ${secrets.length} planted secrets in ${server.output().split('\n').length} lines`
    report('F15', text, found.length === 0 && secrets.length >= 40)
  })
}

/** F17: no RPC node at the start. */
export async function withoutRpcFigure(): Promise<void> {
  await withServers({ RPC_URL: await deadRpcUrl() }, async (servers) => {
    const { url, startMilliseconds } = await servers.start()
    const ready = await ask(`${url}/ready`)
    const { accessToken } = await logIn(url, wallet, domain)
    const { status } = await me(url, accessToken)
    const text = `no RPC node: ready in ${startMilliseconds.toFixed(0)} ms, /ready ${ready.status} ${ready.text}, login ${status}`
    report('F17', text, ready.status === 200 && ready.text.includes('"rpc":"unavailable"') && status === 200)
  })
}

/** All of them. */
export async function serverFigures(rounds = 100): Promise<void> {
  await withoutRpcFigure()
  await secretsFigure()
  await malformedFigure()
  await halfOpenFigure()
  await endUnderLoad('F4', rounds)
  await endUnderLoad('F14', rounds)
}

if (process.argv[1]?.endsWith('figures-servers.ts')) await serverFigures(Number(process.argv[2] ?? 100))
