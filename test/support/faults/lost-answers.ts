import type { DidAuthConfig } from 'express-did-auth'
import { fork, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { nodeOptions, scriptFile } from '../servers/run-script.js'
import { logIn as logInAt, post } from '../servers/server-client.js'
import { temporaryFolder } from '../fixtures/store-folder.js'
import { testApp, type TestApp } from '../servers/test-app.js'
import { createNumberedWallet } from '../fixtures/fixtures.js'

/** Result of a run through a proxy that loses every second answer. */
export interface LostAnswers {
  refreshed: number
  lost: number
  loggedOut: number
  /** Second holders of a refresh token: how many there were, and how many of their sessions were revoked. */
  planted: number
  noticed: number
}

/**
 * Refreshes through a proxy that loses every second answer; now and then somebody else holds a copy of the refresh
 * token and uses it, before its owner or after.
 *
 * @param refreshes - in all, spread over 7 sessions: each loses every second answer
 * @param plants - sessions of which a second holder uses the refresh token
 */
export async function runLostAnswers(
  { refreshes, plants }: { refreshes: number; plants: number },
  config: Partial<DidAuthConfig> = {}
): Promise<LostAnswers> {
  let noticed = 0
  const onSecurityEvent: DidAuthConfig['onSecurityEvent'] = ({ type }) => {
    if (type === 'refresh-token-reused') noticed += 1
  }
  const test = await testApp({ ...config, onSecurityEvent })
  const server = createServer(test.app)
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const proxy = await startLossyProxy(port, (number) => number % 2 === 0)
  try {
    const clients = await Promise.all(
      Array.from({ length: 7 }, async (_, number) => createClient(test, proxy.port, number + 1))
    )
    let [refreshed, loggedOut] = [0, 0]
    for (let number = 0; refreshed < refreshes && loggedOut === 0; number += 1) {
      const outcome = await clients[number % clients.length]!.refresh()
      if (outcome === 'refreshed') refreshed += 1
      if (outcome === 'logged out') loggedOut += 1
      // Far beyond the grace: only the key tells a repeat from a theft.
      test.clock.seconds += 61
    }
    for (let number = 0; number < plants; number += 1) await plant(test, { port, proxyPort: proxy.port }, number)
    return { refreshed, lost: proxy.lost(), loggedOut, planted: plants, noticed }
  } finally {
    proxy.close()
    server.closeAllConnections()
    server.close()
    await test.requireDid.close()
  }
}

async function createClient({ logIn }: TestApp, port: number, number: number): Promise<RefreshingClient> {
  return new RefreshingClient(port, (await logIn(createNumberedWallet(number))).refreshToken)
}

/** Owner and second holder use one refresh token a minute apart, in either order, after refreshes of the owner. */
async function plant(test: TestApp, { port, proxyPort }: { port: number; proxyPort: number }, number: number) {
  const owner = await createClient(test, proxyPort, 100 + number)
  for (let refresh = 0; refresh < number % 4; refresh += 1) await untilAnswered(owner)
  const second = new RefreshingClient(port, owner.refreshToken)
  const order = number % 2 === 0 ? [owner, second] : [second, owner]
  for (const step of order) {
    await untilAnswered(step)
    test.clock.seconds += 60
  }
}

async function untilAnswered(client: RefreshingClient): Promise<void> {
  while ((await client.refresh()) === 'unavailable');
}

/** Outcome of a refresh: new tokens, a refusal that makes a client forget its own, or no answer that arrived. */
export type RefreshOutcome = 'refreshed' | 'logged out' | 'unavailable'

/**
 * A client that refreshes as the documentation says: it keeps refresh token and idempotency key until it has heard an
 * answer, and repeats the same request where it heard none.
 */
export class RefreshingClient {
  readonly #url: string
  #key: string | undefined
  refreshToken: string

  constructor(port: number, refreshToken: string) {
    this.#url = `http://127.0.0.1:${String(port)}/refresh-token`
    this.refreshToken = refreshToken
  }

  /** The same client, with its token and its key, at another port. */
  at(port: number): RefreshingClient {
    const moved = new RefreshingClient(port, this.refreshToken)
    moved.#key = this.#key
    return moved
  }

  /** Tries once; the next call continues an `unavailable` attempt. */
  async refresh(): Promise<RefreshOutcome> {
    this.#key ??= randomBytes(16).toString('base64url')
    const body = { refreshToken: this.refreshToken }
    // A missing answer is a connection that was cut.
    const answer = await post(this.#url, body, { 'Idempotency-Key': this.#key }).catch(() => undefined)
    if (answer === undefined || answer.status >= 500) return 'unavailable'
    this.#key = undefined
    if (answer.status !== 200) return 'logged out'
    this.refreshToken = JSON.parse(answer.text).refreshToken
    return 'refreshed'
  }
}

/** A proxy in front of a server, which loses answers. */
export interface LossyProxy {
  port: number
  /** How many answers were lost so far. */
  lost: () => number
  close: () => void
}

/**
 * Passes requests on through real sockets. An answer that is to be lost has come from the server, so that what it tells
 * of is done; its client's connection is cut instead.
 *
 * @param isLost - asked with the number of each answer, from 1
 */
export async function startLossyProxy(serverPort: number, isLost: (number: number) => boolean): Promise<LossyProxy> {
  let [answers, lost] = [0, 0]
  const proxy: Server = createServer((req, res) => {
    const passedOn = request(
      { host: '127.0.0.1', port: serverPort, method: req.method, path: req.url, headers: req.headers },
      (answer) => {
        const chunks: Buffer[] = []
        answer.on('data', (chunk: Buffer) => void chunks.push(chunk))
        answer.on('end', () => {
          answers += 1
          if (isLost(answers)) {
            lost += 1
            req.socket.destroy()
            return
          }
          res.writeHead(answer.statusCode ?? 502, answer.headers)
          res.end(Buffer.concat(chunks))
        })
      }
    )
    passedOn.on('error', () => req.socket.destroy())
    req.pipe(passedOn)
  })
  await new Promise<void>((resolve) => void proxy.listen(0, '127.0.0.1', resolve))
  return {
    port: (proxy.address() as AddressInfo).port,
    lost: () => lost,
    close() {
      proxy.closeAllConnections()
      proxy.close()
    }
  }
}

const script = scriptFile('test/support/servers/killed-refresh-server.ts')
const wallet = createNumberedWallet(1)

interface KilledServer {
  child: ChildProcess
  port: number
}

/** Result of the rounds. */
export interface KilledRefreshes {
  rounds: number
  /** Refreshes whose process was killed after their commit. */
  killed: number
  /** Repeats, at the next process, that were answered with new tokens. */
  repeated: number
  loggedOut: number
}

/**
 * Refreshes once a round at a process that is killed between commit and answer, and repeats the same request at the
 * next one, on the same SQLite file.
 */
export async function killBetweenCommitAndAnswer(rounds: number): Promise<KilledRefreshes> {
  const { path, remove } = temporaryFolder()
  const file = `${path}/auth.db`
  let refreshToken = await logInOnce(file)
  const result: KilledRefreshes = { rounds, killed: 0, repeated: 0, loggedOut: 0 }
  let client: RefreshingClient | undefined
  for (let round = 0; round <= rounds; round += 1) {
    const { child, port } = await start(file, 'kill')
    const exit = once(child, 'exit')
    // The same request continues at another port: the client stores its token and its key.
    client = client?.at(port) ?? new RefreshingClient(port, refreshToken)
    if (round > 0) {
      const outcome = await client.refresh()
      if (outcome === 'refreshed') result.repeated += 1
      if (outcome === 'logged out') {
        result.loggedOut += 1
        refreshToken = await logInOnce(file)
        client = new RefreshingClient(port, refreshToken)
      }
    }
    if (round === rounds) {
      child.disconnect()
    } else if ((await client.refresh()) === 'unavailable') {
      result.killed += 1
    }
    await exit
  }
  remove()
  return result
}

async function start(file: string, mode: 'kill' | 'live'): Promise<KilledServer> {
  const child = fork(script, [file, mode], { execArgv: [...nodeOptions] })
  const [port] = (await once(child, 'message')) as [number]
  return { child, port }
}

async function logInOnce(file: string): Promise<string> {
  const { child, port } = await start(file, 'live')
  const exit = once(child, 'exit')
  const { refreshToken } = await logInAt(`http://127.0.0.1:${port}`, wallet, 'service.example')
  child.disconnect()
  await exit
  return refreshToken
}
