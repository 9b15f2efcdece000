import { createServer, request, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { scaled } from '../fixtures/time-factor.js'
import { createLoginText, type TestWallet } from '../fixtures/fixtures.js'

const servers: Server[] = []

/** Listens on a free port until {@link closeServices}, and returns the port. */
export async function servingPort(listener: RequestListener, backlog?: number): Promise<number> {
  // Otherwise the server of a stalled test closes an idle connection while its client sends the next request.
  const server = createServer({ keepAliveTimeout: 0 }, listener)
  servers.push(server)
  await new Promise<void>((resolve) => server.listen({ port: 0, host: '127.0.0.1', backlog }, resolve))
  return (server.address() as AddressInfo).port
}

/** Listens on a free port until {@link closeServices}, and returns the URL. */
export const serving = async (listener: RequestListener): Promise<string> =>
  `http://127.0.0.1:${await servingPort(listener)}`

/** Closes all servers of {@link servingPort} and {@link serving}, with their connections. */
export function closeServices(): void {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
}

/** Answer of a server. */
export interface Answer {
  status: number
  text: string
  headers: Headers
}

export interface Tokens {
  accessToken: string
  refreshToken: string
}

/** Sends a request with `fetch`, as a browser does. */
export async function ask(url: string, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(url, { ...init, signal: AbortSignal.timeout(scaled(60_000)) })
  return { status: response.status, text: await response.text(), headers: response.headers }
}

/**
 * Requests `/ready` until the status is 200, and returns that answer. The server gives each check 2 s, which a busy
 * machine may exceed. So a test that expects a ready server must not rely on the first answer.
 *
 * @throws Error with the last answer after 50 s
 */
export async function askUntilReady(url: string): Promise<Answer> {
  const end = performance.now() + scaled(50_000)
  for (;;) {
    const answer = await ask(`${url}/ready`)
    if (answer.status === 200) return answer
    if (performance.now() > end) throw new Error(`${url} did not become ready: ${answer.text}`)
    await pause(100)
  }
}

export function post(url: string, body: object, headers: Record<string, string> = {}): Promise<Answer> {
  const complete = { 'Content-Type': 'application/json', ...headers }
  return ask(url, { method: 'POST', headers: complete, body: JSON.stringify(body) })
}

/** Returns the body of a `POST /auth` that is valid once. */
export async function signedLogin(
  url: string,
  wallet: TestWallet,
  domain: string
): Promise<{ did: string; sig: string; challenge: string }> {
  const { text } = await post(`${url}/request-auth`, { did: wallet.did })
  const { challenge } = JSON.parse(text) as { challenge: string }
  return { did: wallet.did, sig: wallet.personalSign(createLoginText(domain, challenge)), challenge }
}

/** Logs in a wallet with a real signature. */
export async function logIn(url: string, wallet: TestWallet, domain: string): Promise<Tokens> {
  const { did, sig } = await signedLogin(url, wallet, domain)
  const { status, text } = await post(`${url}/auth`, { did, sig })
  if (status !== 200) throw new Error(`login: ${status} ${text}`)
  return JSON.parse(text) as Tokens
}

export function me(url: string, accessToken: string): Promise<Answer> {
  return ask(`${url}/me`, { headers: { Authorization: `DIDAuth ${accessToken}` } })
}

export function refresh(url: string, refreshToken: string): Promise<Answer> {
  return post(`${url}/refresh-token`, { refreshToken })
}

export function logOut(url: string, accessToken: string): Promise<Answer> {
  return post(`${url}/logout`, {}, { Authorization: `DIDAuth ${accessToken}` })
}

const CLIENTS = 12

/** Session, as its client knows it. */
export interface LoadSession {
  /** Last acknowledged refresh token. */
  refreshToken: string
  state: 'active' | 'loggedOut'
  /** Whether a request got no answer, and so may or may not have been executed. */
  isUncertain: boolean
}

/** Returns acknowledged sessions that are lost. Replaces the refresh tokens of all sessions. */
export async function findLosses(url: string, sessions: readonly LoadSession[]): Promise<string[]> {
  const losses: string[] = []
  const queue = [...sessions]
  const work = async (): Promise<void> => {
    for (let session = queue.pop(); session !== undefined; session = queue.pop()) {
      const { status, text } = await refresh(url, session.refreshToken)
      const expected = session.isUncertain ? [200, 401] : session.state === 'active' ? [200] : [401]
      if (!expected.includes(status)) losses.push(`${session.state}: ${status} ${text}`)
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, work))
  return losses
}

/** Answer as text. */
export interface RawAnswer {
  status: number
  text: string
}

/** Sends a request with an unchanged path. `fetch` and supertest would resolve or encode it. */
export async function rawRequest(
  listener: RequestListener,
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body = '{"content":"a"}'
): Promise<RawAnswer> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const hasBody = method === 'POST' || method === 'PUT'
  try {
    return await new Promise((resolve, reject) => {
      const req = request({ port, host: '127.0.0.1', method, path, headers, agent: false }, (res) => {
        let text = ''
        res.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
        res.on('end', () => resolve({ status: res.statusCode ?? 0, text }))
      })
      req.on('error', reject)
      req.end(hasBody ? body : undefined)
    })
  } finally {
    server.close()
  }
}
