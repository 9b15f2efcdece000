import { afterEach, jest } from '@jest/globals'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Express } from 'express'
import type { DidAuthConfig } from 'express-did-auth'
import { DidAuthClient, type ClientStorage, type DidAuthClientOptions, type PlainWallet } from 'express-did-auth/client'
import { testApp, type Host, type TestApp } from './test-app.js'
import { walletOf, type TestWallet } from './wallet.js'

const steps: (() => unknown)[] = []

afterEach(async () => {
  jest.restoreAllMocks()
  for (const step of steps.splice(0).reverse()) await step()
})

/** Does something once the test is over, whatever became of it; the last thing first. */
export function afterTest(...more: (() => unknown)[]): void {
  steps.push(...more)
}

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
  /** How many requests of a path there were. */
  count: (path: string) => number
  /** Is given each request in place of the network; `undefined` lets it through. */
  intercept: (handler: Intercept) => void
  /** Loses the requests of a path, or all, until `intercept` says otherwise. */
  lose: (path?: string) => void
  /** Holds the next answer of a path back, which the service has given, until it is released. */
  hold: (path: string) => { given: Promise<void>; release: () => void }
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

/** Starts a service with all routes, until the test is over. */
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
  const close = async (): Promise<void> => {
    server.closeAllConnections()
    server.close()
    await test.requireDid.close()
  }
  afterTest(close)
  return {
    ...test,
    url,
    exchanges,
    paths: () => exchanges.map(({ path }) => path),
    count: (path) => exchanges.filter((one) => one.path === path).length,
    intercept(handler) {
      intercept = handler
    },
    lose(path) {
      intercept = (exchange) => {
        if (path !== undefined && exchange.path !== path) return undefined
        throw new TypeError('fetch failed')
      }
    },
    hold(path) {
      let [give, release] = [(): void => undefined, (): void => undefined]
      const given = new Promise<void>((resolve) => (give = resolve))
      const released = new Promise<void>((resolve) => (release = resolve))
      interceptAnswer = async (exchange, response) => {
        if (exchange.path !== path) return response
        interceptAnswer = (_, other) => other
        give()
        await released
        return response
      }
      return { given, release }
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
    close
  }
}

/** Status of a request with which the service asks for a user. */
export async function answerOf(auth: DidAuthClient): Promise<number> {
  return (await auth.fetch('/me')).status
}

/** What a call fails with. */
export function failureOf(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => new Error('it should have failed'),
    (thrown: unknown) => thrown
  )
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

/** Timeouts of the client that end when the test says so, and pauses that take no time. */
export interface ClientTime {
  /** Milliseconds of the pauses so far, of those that are skipped. */
  pauses: number[]
  /** Ends every timeout of so many milliseconds that has begun. */
  endTimeouts: (milliseconds: number) => void
}

/**
 * Makes the client's waits take no real time. The service's own waits are of other lengths, and are left alone.
 *
 * @param skipped - milliseconds of the pauses to skip
 */
export function fakeClientTime(...skipped: number[]): ClientTime {
  const pauses: number[] = []
  const timeouts: { milliseconds: number; controller: AbortController }[] = []
  const { setTimeout } = globalThis
  jest.spyOn(globalThis, 'setTimeout').mockImplementation((run: () => void, milliseconds?: number) => {
    if (milliseconds === undefined || !skipped.includes(milliseconds)) return setTimeout(run, milliseconds)
    pauses.push(milliseconds)
    return setTimeout(run, 0)
  })
  jest.spyOn(AbortSignal, 'timeout').mockImplementation((milliseconds) => {
    const controller = new AbortController()
    timeouts.push({ milliseconds, controller })
    return controller.signal
  })
  return {
    pauses,
    endTimeouts(wanted) {
      for (const { milliseconds, controller } of timeouts) {
        if (milliseconds === wanted) controller.abort(new DOMException('The operation timed out', 'TimeoutError'))
      }
    }
  }
}

/** Locks as a browser's `navigator.locks` gives them: by name, one after the other. */
export function fakeLocks(): { request: <T>(name: string, run: () => Promise<T>) => Promise<T> } {
  const last = new Map<string, Promise<unknown>>()
  return {
    request(name, run) {
      const turn = (last.get(name) ?? Promise.resolve()).then(run, run)
      last.set(
        name,
        turn.catch(() => undefined)
      )
      return turn
    }
  }
}

/** Sets what a browser has until the test is over; `undefined` is what it does not have. */
export function setGlobals(values: Readonly<Record<string, unknown>>): void {
  const before = Object.keys(values).map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)] as const)
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined) Reflect.deleteProperty(globalThis, name)
    else Object.defineProperty(globalThis, name, { value, configurable: true, writable: true })
  }
  afterTest(() => {
    for (const [name, descriptor] of before) {
      if (descriptor === undefined) Reflect.deleteProperty(globalThis, name)
      else Object.defineProperty(globalThis, name, descriptor)
    }
  })
}

/** Cookies as a browser keeps them for one service: shared by its tabs, and read by no script. */
export class CookieJar {
  readonly cookies = new Map<string, string>()

  /** A fetch that sends and keeps the cookies where it is told to include them. */
  wrap(fetch: typeof globalThis.fetch): typeof globalThis.fetch {
    return async (input, init = {}) => {
      if (init.credentials !== 'include') return fetch(input, init)
      const headers = new Headers(init.headers)
      const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
      if (cookie !== '') headers.set('Cookie', cookie)
      const response = await fetch(input, { ...init, headers })
      for (const line of response.headers.getSetCookie()) {
        const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
        if (value === '') this.cookies.delete(name)
        else this.cookies.set(name, value)
      }
      return response
    }
  }
}
