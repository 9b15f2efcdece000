/**
 * The figures of the relay as a process: F3 (one credential sent 50 times at once), F4 (kill -9 under load), F7 (an IPFS
 * node that fails in every way) and F8 (malformed requests). One line each; one that misses its goal sets the exit code.
 *
 * Some minutes: `npm run figures -- relay [rounds of F3 and F4, default 100]`
 */
import { setTimeout as pause } from 'node:timers/promises'
import { startFaultyNode } from '../support/faulty-ipfs-node.js'
import { ipfsFaults } from '../support/ipfs-faults.js'
import { malformedRelayRequests } from '../support/malformed-relay-requests.js'
import { runMalformed } from '../support/malformed-run.js'
import { relayCredential, relayGet, relayLogIn, relayPost } from '../support/relay-client.js'
import { ask, post } from '../support/server-client.js'
import { ServerProcesses, type ServerProcess } from '../support/server-process.js'
import { temporaryFolder } from '../support/store-folder.js'
import { walletOf } from '../support/wallet.js'
import { reportFigure } from './report-figure.js'

const CLIENTS = 12
const wallet = walletOf(1)

type Start = (env?: Record<string, string>) => Promise<ServerProcess>

const report = (figure: string, text: string, isMet: boolean): void => {
  reportFigure(figure, `relay: ${text}`, isMet)
}

const describe = (faults: readonly string[]): string =>
  faults.length === 0 ? 'no fault' : `${faults.length} faults, the first: ${faults[0]}`

/** Runs a figure with relays on a folder of its own. */
async function withRelays(use: (start: Start) => Promise<void>): Promise<void> {
  const folder = temporaryFolder()
  const servers = new ServerProcesses({
    DATA_DIR: folder.path,
    LOG_LEVEL: 'warn',
    MAX_REQUESTS_PER_TIME_SLOT: '10000000',
    RELAY_MAX_BYTES_PER_DID: '1000000000',
    RELAY_TOKEN_EXPIRATION_TIME_IN_SECONDS: '86400'
  })
  try {
    await use((env = {}) => servers.start(env, [], 'relay'))
  } finally {
    await servers.killAll()
    folder.remove()
  }
}

/** F3: of 50 copies of one credential, sent at once to two processes, one gets a token. */
export async function raceFigure(rounds: number): Promise<void> {
  await withRelays(async (start) => {
    const relays = [await start(), await start()]
    const faults: string[] = []
    for (let round = 0; round < rounds; round += 1) {
      const jwt = await relayCredential(relays[0]!.url, wallet)
      const copies = Array.from({ length: 50 }, (_, index) => post(`${relays[index % 2]!.url}/auth`, { jwt }))
      const statuses = (await Promise.all(copies)).map(({ status }) => status)
      const tokens = statuses.filter((status) => status === 200).length
      const others = statuses.filter((status) => status !== 200 && status !== 401)
      if (tokens !== 1 || others.length > 0) faults.push(`${tokens} tokens, ${others.join()}`)
    }
    report(
      'F3',
      `50 copies of one credential at two processes, ${rounds} rounds: ${describe(faults)}`,
      faults.length === 0
    )
  })
}

/** F4: the process is killed under load; files that it acknowledged come back. */
export async function killFigure(rounds: number): Promise<void> {
  await withRelays(async (start) => {
    const faults: string[] = []
    let [acknowledged, slowestStart] = [0, 0]
    let relay = await start()
    const tokens = await Promise.all(
      Array.from({ length: CLIENTS }, (_, client) => relayLogIn(relay.url, walletOf(client + 1)))
    )
    for (let round = 0; round < rounds; round += 1) {
      const kept: { cid: string; file: string }[] = []
      const clients = tokens.map(async (token, client) => {
        for (let index = 0; ; index += 1) {
          const file = `${round} ${client} ${index} `.repeat(1 + ((index * 37) % 200))
          try {
            kept.push({ file, cid: await relayPost(relay.url, token, file) })
          } catch (error) {
            // A connection that breaks is a TypeError of fetch.
            if (error instanceof Error && error.message.startsWith('post: ')) faults.push(error.message)
            return
          }
        }
      })
      await pause(300 + 5 * (round % 100))
      relay.signal('SIGKILL')
      await Promise.all(clients)
      acknowledged += kept.length
      relay = await start()
      slowestStart = Math.max(slowestStart, relay.startMilliseconds)
      for (const { cid, file } of kept) {
        const { status, text } = await relayGet(relay.url, tokens[0]!, cid)
        if (text !== JSON.stringify({ file })) faults.push(`lost: ${status}`)
      }
    }
    const load = `${rounds} rounds, ${acknowledged} files acknowledged`
    const text = `SIGKILL under load, ${load}, ready again in at most ${slowestStart.toFixed(0)} ms: ${describe(faults)}`
    report('F4', text, faults.length === 0 && slowestStart <= 5_000)
  })
}

/** F7: every fault of the node, with the real deadline. */
export async function faultFigure(): Promise<void> {
  const faults: string[] = []
  let slowest = 0
  const posted = ipfsFaults.filter((fault) => fault !== 'answers other bytes')
  for (const fault of posted) {
    const node = await startFaultyNode({ slowMilliseconds: 20_000 })
    await withRelays(async (start) => {
      const relay = await start({ IPFS_API_URL: node.url })
      const token = await relayLogIn(relay.url, wallet)
      const cid = await relayPost(relay.url, token, 'hello world')
      await node.fail(fault)
      const startedAt = performance.now()
      const init = { method: 'POST', body: '{"file":"another"}', signal: AbortSignal.timeout(15_000) }
      const headers = { 'Content-Type': 'application/json', Authorization: token }
      const answer = await fetch(`${relay.url}/file`, { ...init, headers })
      slowest = Math.max(slowest, performance.now() - startedAt)
      if (answer.status !== 200) faults.push(`${fault}: ${answer.status}`)
      const ready = await ask(`${relay.url}/ready`)
      if (ready.status !== 200) faults.push(`${fault}: /ready ${ready.status}`)
      await node.heal()
      if ((await relayGet(relay.url, token, cid)).status !== 200) faults.push(`${fault}: a stored file is missing`)
      if ((await relayPost(relay.url, token, 'third')).length !== 59) faults.push(`${fault}: no recovery`)
    })
    await node.stop()
  }
  const text = `${posted.length} faults of the IPFS node at POST /file, the slowest answer after ${(slowest / 1000).toFixed(1)} s`
  report('F7', `${text}: ${describe(faults)}`, faults.length === 0 && slowest <= 11_000)
}

/** F8: all malformed requests. */
export async function malformedFigure(): Promise<void> {
  await withRelays(async (start) => {
    const relay = await start()
    const accessToken = await relayLogIn(relay.url, wallet)
    const { text } = await post(`${relay.url}/request-auth`, { did: wallet.did })
    const { challenge } = JSON.parse(text) as { challenge: string }
    const good = { did: wallet.did, sig: '0x', accessToken, refreshToken: 'R', credentialJwt: 'a.b.c' }
    const requests = malformedRelayRequests(good, wallet, challenge)
    const run = await runMalformed(Number(new URL(relay.url).port), requests, 5_000)
    const faults = [...run.faults, ...Array<string>(run.pages).fill('a page of Express')]
    if (relay.output().includes('"level":"error"')) faults.push('an error in the log')
    const cid = await relayPost(relay.url, accessToken, 'still alive')
    const isAlive = (await relayGet(relay.url, accessToken, cid)).status === 200
    const line = `malformed requests, ${run.sent}: ${describe(faults)}, ${isAlive ? 'alive' : 'dead'}`
    report('F8', line, faults.length === 0 && isAlive && run.sent >= 2_000)
  })
}

if (process.argv[1]?.endsWith('figures-relay.ts') === true) {
  const rounds = Number(process.argv[2] ?? 100)
  await malformedFigure()
  await raceFigure(rounds)
  await faultFigure()
  await killFigure(rounds)
}
