import { jest } from '@jest/globals'
import type { DidAuthConfig } from 'express-did-auth'
import { DidAuthClient, type ClientStorage, type DidAuthClientOptions } from 'express-did-auth-client'
import type { Eip1193Provider, PlainWallet } from 'express-did-auth-client'
import { afterTest } from '../fixtures/after-test.js'
import { listenAt } from '../fixtures/client-error.js'
import { testApp, type Host } from './test-app.js'
import { createNumberedWallet, type TestWallet } from '../fixtures/fixtures.js'

/** Request of the client and its response. */
export interface Exchange {
  method: string
  path: string
  headers: Headers
  body: string | undefined
  status: number | undefined
  /** Body of the response to a POST. */
  answer: string | undefined
}

/** Listening service, and its clients. Their requests are recorded, and a test may intercept them. */
export type ClientService = Awaited<ReturnType<typeof startClientService>>

type Answered = Response | Promise<Response>
/** Handles a request in place of the network; `undefined` sends it to the service. */
export type Intercept = (exchange: Exchange, signal: AbortSignal | undefined) => Answered | undefined
/** Replaces the response of the service for the client. */
type InterceptAnswer = (exchange: Exchange, response: Response) => Answered

export const alice = createNumberedWallet(1)

/** Creates a wallet with only the required members. */
export function createPlainWallet({ address, personalSign }: TestWallet, chainId?: number): PlainWallet {
  return { address, signMessage: personalSign, ...(chainId !== undefined && { chainId }) }
}

/** Starts a service with all routes until the test is over. */
export async function startClientService(config: Partial<DidAuthConfig> = {}, host: Host = {}) {
  const routes = { sessionPath: '/session', sessionsPath: '/sessions', maxRequestsPerTimeSlot: 1_000 }
  const test = await testApp({ ...routes, ...config }, host)
  const { url, close: stop } = await listenAt(test.app)
  const exchanges: Exchange[] = []
  let intercept: Intercept = () => undefined
  let interceptAnswer: InterceptAnswer = (_, response) => response
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
    await stop()
    await test.requireDid.close()
  }
  afterTest(close)
  const client = (options: Partial<DidAuthClientOptions> = {}): DidAuthClient =>
    new DidAuthClient({
      url,
      wallet: createPlainWallet(alice),
      domain: 'service.example',
      serviceUrl: 'https://service.example',
      fetch: seenFetch,
      clock: test.clock,
      ...options
    })
  const signedIn = async (options: Partial<DidAuthClientOptions> = {}): Promise<DidAuthClient> => {
    const auth = client(options)
    await auth.logIn()
    return auth
  }
  return {
    ...test,
    url,
    exchanges,
    /** Paths of the requests so far. */
    paths: () => exchanges.map(({ path }) => path),
    /** Returns the number of requests to a path. */
    count: (path: string) => exchanges.filter((exchange) => exchange.path === path).length,
    intercept(handler: Intercept) {
      intercept = handler
    },
    /** Loses the requests to a path, or all requests, until `intercept` is called. */
    lose(path?: string) {
      intercept = (exchange) => {
        if (path !== undefined && exchange.path !== path) return undefined
        throw new TypeError('fetch failed')
      }
    },
    /** Leaves the requests to a path without a response until their client times out. */
    silence(path: string) {
      intercept = (exchange, signal) =>
        exchange.path !== path
          ? undefined
          : new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(signal.reason as Error)))
    },
    /** Holds the next response to a path back until it is released. The service has sent it. */
    hold(path: string) {
      let [reportArrival, release] = [(): void => undefined, (): void => undefined]
      const arrived = new Promise<void>((resolve) => (reportArrival = resolve))
      const released = new Promise<void>((resolve) => (release = resolve))
      interceptAnswer = async (exchange, response) => {
        if (exchange.path !== path) return response
        interceptAnswer = (_, other) => other
        reportArrival()
        await released
        return response
      }
      return { arrived, release }
    },
    interceptAnswer(handler: InterceptAnswer) {
      interceptAnswer = handler
    },
    fetch: seenFetch,
    client,
    /** Returns a client that has logged in. */
    signedIn,
    /** Returns a client whose token has expired. */
    outdated: async (options: Partial<DidAuthClientOptions> = {}): Promise<DidAuthClient> => {
      const auth = await signedIn(options)
      test.clock.seconds += 700
      return auth
    },
    close
  }
}

/** Returns the status of a guarded request. */
export async function requestStatus(auth: DidAuthClient): Promise<number> {
  return (await auth.fetch('/me')).status
}

const later = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))

/** Creates a storage that several clients share, like the tabs of a browser. */
export function createSharedStorage(): ClientStorage & { values: Map<string, string> } {
  const values = new Map<string, string>()
  return {
    values,
    get: (key) => later().then(() => values.get(key)),
    set: (key, value) => later().then(() => values.set(key, value)),
    delete: (key) => later().then(() => values.delete(key))
  }
}

/** Opens tabs of one browser, which share a storage. The first one has logged in. */
export async function openTabs(
  service: ClientService,
  count: number,
  storage: ClientStorage = createSharedStorage()
): Promise<DidAuthClient[]> {
  const first = service.client({ storage })
  await first.logIn()
  const others = Array.from({ length: count - 1 }, () => service.client({ storage }))
  await Promise.all(others.map(({ ready }) => ready))
  return [first, ...others]
}

/** Fake time of the client: timeouts end on request, and pauses take no time. */
export interface ClientTime {
  /** Milliseconds of the skipped pauses so far. */
  pauses: number[]
  /** Ends every running timeout of this many milliseconds. */
  endTimeouts: (milliseconds: number) => void
}

/**
 * Makes the client's waits take no real time. The service's waits have other durations and are not affected.
 *
 * @param skipped - milliseconds of the pauses to skip
 */
export function fakeClientTime(...skipped: number[]): ClientTime {
  const pauses: number[] = []
  const timeouts: { milliseconds: number | undefined; run: () => void }[] = []
  const { setTimeout } = globalThis
  jest.spyOn(globalThis, 'setTimeout').mockImplementation((run: () => void, milliseconds?: number) => {
    // The name of the client's time limits, see `runWithin`. They end on request only.
    if (run.name === 'expire') {
      timeouts.push({ milliseconds, run })
      return setTimeout(() => undefined, 0)
    }
    if (milliseconds === undefined || !skipped.includes(milliseconds)) return setTimeout(run, milliseconds)
    pauses.push(milliseconds)
    return setTimeout(run, 0)
  })
  return {
    pauses,
    endTimeouts(timeoutMs) {
      for (const { milliseconds, run } of timeouts) if (milliseconds === timeoutMs) run()
    }
  }
}

/** Creates locks like `navigator.locks` of a browser: by name, one holder at a time. */
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

/** Sets globals of a browser until the test is over; `undefined` removes one. */
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

/**
 * Sets the globals of a page whose wallets announce themselves, until the end of the test. @returns the page's window
 */
export function setPage(ethereum?: Eip1193Provider): EventTarget {
  const target = new EventTarget()
  const methods = ['addEventListener', 'removeEventListener', 'dispatchEvent'] as const
  const bound = Object.fromEntries(methods.map((name) => [name, target[name].bind(target)]))
  setGlobals({ ...bound, ethereum })
  return target
}

/** Cookies of one service in a browser. Its tabs share them, and its scripts cannot read them. */
export class CookieJar {
  readonly cookies = new Map<string, string>()

  /** Wraps fetch, so that requests with `credentials: 'include'` send and store cookies. */
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
