import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Express } from 'express'
import type { DidAuthConfig } from 'express-did-auth'
import { DidAuthClient, type ClientStorage, type DidAuthClientOptions, type PlainWallet } from 'express-did-auth/client'
import { testApp, type Host, type TestApp } from './test-app.js'
import { walletOf, type TestWallet } from './wallet.js'

/** What a request of the client was, and what was answered. */
export interface Exchange {
  method: string
  path: string
  headers: Headers
  body: string | undefined
  status: number | undefined
  /** Body of the answer of a POST. */
  answer: string | undefined
}

/** A real service that listens, and clients of it whose requests are seen, and answered otherwise where a test says so. */
export interface ClientService extends TestApp {
  url: string
  exchanges: Exchange[]
  /** Paths of the requests so far. */
  paths: () => string[]
  /** Is given each request in place of the network; `undefined` lets it through. */
  intercept: (handler: Intercept) => void
  /** After the service has answered: what the client gets in place of it. */
  interceptAnswer: (handler: (exchange: Exchange, response: Response) => Response | Promise<Response>) => void
  client: (options?: Partial<DidAuthClientOptions>) => DidAuthClient
  fetch: typeof globalThis.fetch
  close: () => Promise<void>
}

export type Intercept = (
  exchange: Exchange,
  signal: AbortSignal | undefined
) => Promise<Response> | Response | undefined

export const alice = walletOf(1)

/** A wallet of the plainest kind. */
export function plainWallet({ address, personalSign }: TestWallet, chainId?: number): PlainWallet {
  return { address, signMessage: personalSign, ...(chainId !== undefined && { chainId }) }
}

export async function listen(app: Express): Promise<{ server: Server; url: string }> {
  const server = createServer(app)
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

/**
 * Starts a service with all routes.
 *
 * @param config - of the service
 */
export async function startClientService(config: Partial<DidAuthConfig> = {}, host: Host = {}): Promise<ClientService> {
  const routes = { sessionPath: '/session', sessionsPath: '/sessions', maxRequestsPerTimeSlot: 1_000 }
  const test = await testApp({ ...routes, ...config }, host)
  const { server, url } = await listen(test.app)
  const exchanges: Exchange[] = []
  let intercept: Intercept = () => undefined
  let interceptAnswer: (exchange: Exchange, response: Response) => Response | Promise<Response> = (_, response) =>
    response
  const seenFetch: typeof globalThis.fetch = async (input, init) => {
    const request = new Request(input, init)
    const exchange: Exchange = {
      method: request.method,
      path: new URL(request.url).pathname,
      headers: request.headers,
      body: typeof init?.body === 'string' ? init.body : undefined,
      status: undefined,
      answer: undefined
    }
    exchanges.push(exchange)
    const response = (await intercept(exchange, init?.signal ?? undefined)) ?? (await fetch(request))
    if (request.method === 'POST') exchange.answer = await response.clone().text()
    exchange.status = response.status
    return interceptAnswer(exchange, response)
  }
  return {
    ...test,
    url,
    exchanges,
    paths: () => exchanges.map(({ path }) => path),
    intercept(handler) {
      intercept = handler
    },
    interceptAnswer(handler) {
      interceptAnswer = handler
    },
    fetch: seenFetch,
    client: (options = {}) =>
      new DidAuthClient({
        url,
        wallet: plainWallet(alice),
        domain: 'service.example',
        fetch: seenFetch,
        clock: test.clock,
        ...options
      }),
    async close() {
      server.closeAllConnections()
      server.close()
      await test.requireDid.close()
    }
  }
}

/** A storage that several clients share, as the tabs of a browser do. */
export function sharedStorage(): ClientStorage & { values: Map<string, string> } {
  const values = new Map<string, string>()
  const later = <T>(value: T): Promise<T> =>
    new Promise((resolve) =>
      setImmediate(() => {
        resolve(value)
      })
    )
  return {
    values,
    get: (key) => later(undefined).then(() => values.get(key)),
    set: (key, value) => later(undefined).then(() => values.set(key, value)),
    delete: (key) => later(undefined).then(() => values.delete(key))
  }
}

/** Tabs of one browser, which share a storage; the first of them logged in. */
export async function openTabs(
  service: ClientService,
  count: number,
  storage: ClientStorage = sharedStorage()
): Promise<DidAuthClient[]> {
  const first = service.client({ storage })
  await first.logIn()
  const others = Array.from({ length: count - 1 }, () => service.client({ storage }))
  await Promise.all(others.map(({ ready }) => ready))
  return [first, ...others]
}
