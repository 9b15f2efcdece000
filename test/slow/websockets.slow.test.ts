import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { memoryStore, type DidAuthConfig, type RequireDid, type SecurityEvent, type Store } from 'express-did-auth'
import { once } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { io, type Socket } from 'socket.io-client'
import { WebSocket, type RawData } from 'ws'
import { systemClock } from '../../src/time.js'
import { afterTest } from '../support/fixtures/after-test.js'
import { readDocument, root } from '../support/fixtures/documents.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'
import { logInForCookies } from '../support/servers/app-client.js'
import { serviceUrl, testApp, type TestApp } from '../support/servers/test-app.js'

const wallet = createNumberedWallet(1)
// Below test/slow, so that the recipes find the packages of the slow tests.
const folder = join(root, 'test/slow/.cache/websockets')

type OnEvent = (event: SecurityEvent) => void
interface Recipes {
  serveSockets: (
    server: Server,
    requireDid: RequireDid,
    onMessage: (ws: WebSocket, auth: { canonicalDid: string }, message: RawData) => void
  ) => OnEvent
  serveIo: (server: Server, requireDid: RequireDid) => { io: { close: () => Promise<void> }; onEvent: OnEvent }
}
const recipes = {} as Recipes

beforeAll(async () => {
  mkdirSync(folder, { recursive: true })
  const blocks = readDocument('src/guides/WEBSOCKETS.md').blocks.filter(({ language }) => language === 'js')
  for (const [index, { code }] of blocks.entries()) {
    expect(code.trimEnd().split('\n').length).toBeLessThanOrEqual(25)
    const file = join(folder, `recipe-${String(index)}.ts`)
    // The test does not wait for a minute.
    writeFileSync(file, code.replace('60_000)', '300)'))
    Object.assign(recipes, await import(file))
  }
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

interface Service extends TestApp {
  /** URL of the service, with the scheme http. */
  url: string
}

/** Starts a service with the sockets of a recipe. */
async function start(kind: 'ws' | 'socket.io', config: Partial<DidAuthConfig>): Promise<Service> {
  let onEvent: OnEvent = () => undefined
  const test = await testApp({ clock: systemClock, onSecurityEvent: (event) => onEvent(event), ...config })
  const server = createServer(test.app).listen(0, '127.0.0.1')
  if (kind === 'ws') {
    onEvent = recipes.serveSockets(server, test.requireDid, (ws, { canonicalDid }, message) =>
      ws.send(`${canonicalDid}: ${(message as Buffer).toString()}`)
    )
  } else {
    const served = recipes.serveIo(server, test.requireDid)
    onEvent = served.onEvent
    afterTest(() => served.io.close())
  }
  await once(server, 'listening')
  afterTest(() => {
    server.closeAllConnections()
    server.close()
  })
  return { ...test, url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}` }
}

/** An open connection, or the reason why there is none. */
interface Opened {
  isOpen: boolean
  closed: Promise<unknown>
}

async function openWs(
  { url }: Service,
  headers: Record<string, string>,
  token?: string
): Promise<Opened & { ws: WebSocket }> {
  const ws = new WebSocket(url.replace('http', 'ws'), { headers })
  afterTest(() => ws.terminate())
  const closed = once(ws, 'close').then(([code]) => code as unknown)
  const ready = once(ws, 'message').then(([message]) => String(message as Buffer) === 'ready')
  if (token !== undefined) ws.on('open', () => ws.send(token))
  return { ws, closed, isOpen: await Promise.race([ready, closed.then(() => false)]) }
}

async function openIo(
  { url }: Service,
  headers: Record<string, string>,
  token?: string
): Promise<Opened & { socket: Socket }> {
  const socket = io(url, { extraHeaders: headers, auth: { token }, reconnection: false, forceNew: true })
  afterTest(() => socket.close())
  const closed = new Promise((resolve) => socket.on('disconnect', resolve))
  const ready = new Promise<boolean>((resolve) => {
    socket.on('connect', () => resolve(true))
    socket.on('connect_error', () => resolve(false))
  })
  return { socket, closed, isOpen: await ready }
}

const openers = { ws: openWs, 'socket.io': openIo }

/** Waits until the service has closed a socket. Fails by the time limit of the test otherwise. */
const isClosed = async ({ closed }: Opened): Promise<boolean> => {
  await closed
  return true
}

describe.each(['ws', 'socket.io'] as const)('the recipe for %s', (kind) => {
  const open = openers[kind]

  describe('a socket in cookie mode', () => {
    const startWithCookies = async (config: Partial<DidAuthConfig> = {}) => {
      const service = await start(kind, { useCookies: true, ...config })
      return { service, cookie: await logInForCookies(service.app, wallet) }
    }

    it('accepts the page of the service, and refuses a page of another site, another origin and none', async () => {
      const { service, cookie } = await startWithCookies()
      expect((await open(service, { cookie, origin: serviceUrl })).isOpen).toBe(true)
      for (const origin of ['http://evil.example', 'null', `${serviceUrl}:8443`, 'http://service.example']) {
        expect([origin, (await open(service, { cookie, origin })).isOpen]).toEqual([origin, false])
      }
      const siteOnly = { cookie, 'sec-fetch-site': 'cross-site' }
      expect((await open(service, siteOnly)).isOpen).toBe(false)
      expect((await open(service, { origin: serviceUrl })).isOpen).toBe(false)
    })

    it('closes the sockets of a session when its user logs out, and no other', async () => {
      const { service, cookie } = await startWithCookies()
      const other = await logInForCookies(service.app, wallet)
      const [first, second] = [
        await open(service, { cookie, origin: serviceUrl }),
        await open(service, { cookie: other, origin: serviceUrl })
      ]
      let isSecondClosed = false
      void second.closed.then(() => (isSecondClosed = true))
      await fetch(`${service.url}/logout`, { method: 'POST', headers: { cookie, origin: serviceUrl } })
      expect(await isClosed(first)).toBe(true)
      expect(isSecondClosed).toBe(false)
      await service.requireDid.sessions.revokeAll(wallet.did)
      expect(await isClosed(second)).toBe(true)
    })
  })

  describe('a socket in header mode', () => {
    const startWithToken = async (config: Partial<DidAuthConfig> = {}) => {
      const service = await start(kind, config)
      return { service, ...(await service.logIn()) }
    }

    it('takes the token from the page, behind any proxy, and refuses another token', async () => {
      const { service, accessToken } = await startWithToken()
      const forwarded = { 'x-forwarded-for': '192.0.2.7' }
      expect((await open(service, forwarded, 'a.b.c')).isOpen).toBe(false)
      expect((await open(service, forwarded, accessToken)).isOpen).toBe(true)
    })

    it('closes the socket at the `exp` of its token', async () => {
      const { service, accessToken } = await startWithToken({ accessTokenExpirationTimeInSeconds: 2 })
      const opened = await open(service, {}, accessToken)
      expect([opened.isOpen, await isClosed(opened)]).toEqual([true, true])
    })

    it('closes the socket of a session that another instance ended', async () => {
      const store: Store = memoryStore()
      const { service, accessToken } = await startWithToken({ store })
      const { requireDid: other } = await testApp({ store, clock: systemClock })
      const opened = await open(service, {}, accessToken)
      await wait(700)
      await other.sessions.revokeAll(wallet.did)
      expect([opened.isOpen, await isClosed(opened)]).toEqual([true, true])
    })
  })
})

describe('the recipe for ws', () => {
  it('passes messages on with the user', async () => {
    const service = await start('ws', {})
    const { ws } = await openWs(service, {}, (await service.logIn()).accessToken)
    ws.send('hello')
    expect(String((await once(ws, 'message'))[0])).toBe(`${wallet.did}: hello`)
  })
})
