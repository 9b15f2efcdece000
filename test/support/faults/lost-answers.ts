import type { DidAuthConfig } from 'express-did-auth'
import { fork, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { nodeOptions, scriptFile } from '../servers/run-script.js'
import { logIn as logInAt, post } from '../servers/server-client.js'
import { temporaryFolder } from '../fixtures/store-folder.js'
import { testApp, type TestApp } from '../servers/test-app.js'
import { createNumberedWallet } from '../fixtures/fixtures.js'
import { createHttpServer } from '../servers/http-server.js'

/** Result of a run through a proxy that loses every second answer. */
export interface LostAnswers {
  refreshed: number
  lost: number
  loggedOut: number
  /** Number of second holders of a refresh token. */
  planted: number
  /** Number of their sessions that were revoked. */
  noticed: number
}

/**
 * Refreshes through a proxy that loses every second answer. In additional sessions, a second holder also uses the
 * refresh token, before or after the owner.
 *
 * @param refreshes - total number, over 7 sessions: an odd number, so that each session loses every second answer
 * @param plants - number of sessions with a second holder of the refresh token
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
  const server = createHttpServer(test.app)
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
      // The grace period is over: only the idempotency key distinguishes a repeat from a theft.
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

/** Lets the owner and a second holder use one refresh token a minute apart, after 0 to 3 refreshes of the owner. */
async function plant(test: TestApp, { port, proxyPort }: { port: number; proxyPort: number }, number: number) {
  const owner = await createClient(test, proxyPort, 100 + number)
  for (let refresh = 0; refresh < number % 4; refresh += 1) await refreshUntilAnswered(owner)
  const second = new RefreshingClient(port, owner.refreshToken)
  const order = number % 2 === 0 ? [owner, second] : [second, owner]
  for (const step of order) {
    await refreshUntilAnswered(step)
    test.clock.seconds += 60
  }
}

async function refreshUntilAnswered(client: RefreshingClient): Promise<void> {
  while ((await client.refresh()) === 'unavailable');
}

/** Outcome of a refresh: new tokens, a refusal after which a client deletes its tokens, or no usable answer. */
export type RefreshOutcome = 'refreshed' | 'logged out' | 'unavailable'

/**
 * Client that refreshes as documented. It keeps the refresh token and the idempotency key until it receives an answer.
 * Without an answer, it repeats the same request.
 */
export class RefreshingClient {
  readonly #url: string
  #key: string | undefined
  refreshToken: string

  constructor(port: number, refreshToken: string) {
    this.#url = `http://127.0.0.1:${String(port)}/refresh-token`
    this.refreshToken = refreshToken
  }

  /** Returns a copy of the client for another port, with the same refresh token and idempotency key. */
  at(port: number): RefreshingClient {
    const copy = new RefreshingClient(port, this.refreshToken)
    copy.#key = this.#key
    return copy
  }

  /** Tries once; the next call continues an `unavailable` attempt. */
  async refresh(): Promise<RefreshOutcome> {
    this.#key ??= randomBytes(16).toString('base64url')
    const body = { refreshToken: this.refreshToken }
    // No answer means that the connection was cut.
    const answer = await post(this.#url, body, { 'Idempotency-Key': this.#key }).catch(() => undefined)
    if (answer === undefined || answer.status >= 500) return 'unavailable'
    this.#key = undefined
    if (answer.status !== 200) return 'logged out'
    this.refreshToken = JSON.parse(answer.text).refreshToken
    return 'refreshed'
  }
}

/** Proxy that loses answers of a server. */
export interface LossyProxy {
  port: number
  /** Returns the number of answers lost so far. */
  lost: () => number
  close: () => void
}

/**
 * Starts a proxy that forwards requests through real sockets. It loses an answer by cutting the connection of the
 * client, after it has received the answer: the server has executed the request.
 *
 * @param isLost - whether an answer is lost, given its number from 1
 */
export async function startLossyProxy(serverPort: number, isLost: (number: number) => boolean): Promise<LossyProxy> {
  let [answers, lost] = [0, 0]
  const proxy: Server = createHttpServer((req, res) => {
    const forwarded = request(
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
    forwarded.on('error', () => req.socket.destroy())
    req.pipe(forwarded)
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

/** Result of {@link killBetweenCommitAndAnswer}. */
export interface KilledRefreshes {
  rounds: number
  /** Number of refreshes whose process was killed after the commit. */
  killed: number
  /** Number of repeats that the next process answered with new tokens. */
  repeated: number
  loggedOut: number
}

/**
 * Refreshes once per round at a process that is killed between the commit and the answer. The next process, on the same
 * SQLite file, receives the same request again.
 */
export async function killBetweenCommitAndAnswer(rounds: number): Promise<KilledRefreshes> {
  const { path, remove } = temporaryFolder()
  const file = `${path}/auth.db`
  let refreshToken = await logInOnce(file)
  const result: KilledRefreshes = { rounds, killed: 0, repeated: 0, loggedOut: 0 }
  let client: RefreshingClient | undefined
  for (let round = 0; round <= rounds; round += 1) {
    const { child, port } = await startProcess(file, 'kill')
    const exit = once(child, 'exit')
    // The client keeps its refresh token and idempotency key, and repeats the same request at another port.
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

async function startProcess(file: string, mode: 'kill' | 'live'): Promise<KilledServer> {
  const child = fork(script, [file, mode], { execArgv: [...nodeOptions] })
  const [port] = (await once(child, 'message')) as [number]
  return { child, port }
}

async function logInOnce(file: string): Promise<string> {
  const { child, port } = await startProcess(file, 'live')
  const exit = once(child, 'exit')
  const { refreshToken } = await logInAt(`http://127.0.0.1:${port}`, wallet, 'service.example')
  child.disconnect()
  await exit
  return refreshToken
}
