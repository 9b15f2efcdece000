import { beforeEach, describe, expect, it } from '@jest/globals'
import type { DidAuthClient } from 'express-did-auth/client'
import {
  alice,
  requestStatus,
  type ClientService,
  CookieJar,
  fakeClientTime,
  fakeLocks,
  createPlainWallet,
  setGlobals,
  createSharedStorage,
  startClientService
} from '../support/client-service.js'
import { START_SECONDS } from '../support/test-app.js'
import { until } from '../support/until.js'
import { createNumberedWallet } from '../support/wallet.js'

let service: ClientService
let jar: CookieJar
let storage: ReturnType<typeof createSharedStorage>

beforeEach(async () => {
  setGlobals({ window: {}, navigator: { locks: fakeLocks() } })
  service = await startClientService({ useCookies: true })
  jar = new CookieJar()
  storage = createSharedStorage()
})

const cookieOptions = () => ({ mode: 'cookie' as const, storage, fetch: jar.wrap(service.fetch) })
const openTab = (options = {}): DidAuthClient => service.client({ ...cookieOptions(), ...options })

/** A tab whose token has ended. */
const outdated = () => service.outdated(cookieOptions())

describe('a client with cookies', () => {
  it('knows no session before a login, and the session of the cookies after it, also after a reload', async () => {
    const auth = openTab()
    await auth.ready
    expect(auth.session).toBeUndefined()
    const session = await auth.logIn()
    expect(session).toEqual({ did: alice.did, sessionId: expect.any(String), expiresAt: START_SECONDS + 600 })
    expect(await requestStatus(auth)).toBe(200)
    const reloaded = openTab()
    await reloaded.ready
    expect(reloaded.session).toEqual(session)
  })

  it('says that the browser stored no cookie', async () => {
    const failed = openTab({ fetch: service.fetch }).logIn()
    const userMessage = 'This browser kept no cookie. Open the page over https.'
    await expect(failed).rejects.toMatchObject({ code: 'PROTOCOL', userMessage })
  })

  it('keeps no token anywhere that a script can read', async () => {
    const auth = await outdated()
    await requestStatus(auth)
    const [accessToken, refreshToken] = [...jar.cookies.values()]
    const storedText = JSON.stringify([...storage.values])
    expect(storedText).not.toContain(accessToken!)
    expect(storedText).not.toContain(refreshToken!)
    expect(service.exchanges.some(({ headers }) => headers.has('authorization'))).toBe(false)
  })

  it('refreshes once for ten tabs, and learns the new end outside the lock', async () => {
    const first = openTab()
    await first.logIn()
    const tabs = [first, ...Array.from({ length: 9 }, () => openTab())]
    await Promise.all(tabs.map(({ ready }) => ready))
    service.clock.seconds += 700
    expect(await Promise.all(tabs.map(requestStatus))).toEqual(Array(10).fill(200))
    expect(service.count('/refresh-token')).toBe(1)
    expect(first.session?.expiresAt).toBe(START_SECONDS + 1_300)
  })

  it('refreshes once for ten tabs that are all opened when only the refresh cookie is valid', async () => {
    await outdated()
    const tabs = Array.from({ length: 10 }, () => openTab())
    await Promise.all(tabs.map(({ ready }) => ready))
    expect(await Promise.all(tabs.map(requestStatus))).toEqual(Array(10).fill(200))
    expect(service.count('/refresh-token')).toBe(1)
  })

  it('stays signed in when an answer is lost, and the next page refreshes an hour later', async () => {
    const auth = await outdated()
    const { arrived } = service.hold('/refresh-token')
    void requestStatus(auth)
    await arrived
    setGlobals({ navigator: { locks: fakeLocks() } })
    service.clock.seconds += 3_600
    const next = openTab()
    await next.ready
    expect(await requestStatus(next)).toBe(200)
  })

  it('continues when the storage was cleared, because the cookies decide', async () => {
    const auth = openTab()
    await auth.logIn()
    storage.values.clear()
    service.clock.seconds += 700
    expect(await requestStatus(auth)).toBe(200)
  })

  it('is signed out when its session was revoked, and sends no POST /logout, which may hit newer cookies', async () => {
    const auth = await outdated()
    await service.requireDid.sessions.revokeAll(alice.did)
    await expect(auth.fetch('/me')).rejects.toMatchObject({ code: 'SESSION_ENDED' })
    expect(auth.session).toBeUndefined()
    expect(service.count('/logout')).toBe(0)
  })

  it('takes what is no empty answer for no refresh', async () => {
    const auth = await outdated()
    service.intercept(({ path }) => (path === '/refresh-token' ? Response.json({ free: 'wifi' }) : undefined))
    await expect(auth.fetch('/me')).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(auth.session).toBeDefined()
  })

  it('is of one user in all tabs: a login in one is the session of the others', async () => {
    const [tab, otherTab] = [openTab(), openTab({ wallet: createPlainWallet(createNumberedWallet(2)) })]
    await tab.logIn()
    await until(() => otherTab.session?.did === alice.did)
    await otherTab.logIn()
    await until(() => tab.session?.did === createNumberedWallet(2).did)
    expect(await requestStatus(tab)).toBe(200)
  })

  it('stays signed in when the service is not told of a log out, and signs out when it is', async () => {
    const auth = openTab()
    await auth.logIn()
    service.lose('/logout')
    await expect(auth.logOut()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(auth.session).toBeDefined()
    service.intercept(() => undefined)
    await auth.logOut()
    expect(auth.session).toBeUndefined()
    expect(jar.cookies.size).toBe(0)
  })

  it('logs out after a refresh that another tab has under way, so that no cookie comes back', async () => {
    fakeClientTime()
    const [tab, otherTab] = [openTab(), openTab()]
    await tab.logIn()
    await until(() => otherTab.session !== undefined)
    service.clock.seconds += 700
    const { arrived, release } = service.hold('/refresh-token')
    const refreshing = requestStatus(tab)
    await arrived
    const loggedOut = otherTab.logOut()
    await new Promise((resolve) => setImmediate(resolve))
    release()
    await Promise.allSettled([refreshing, loggedOut])
    expect(jar.cookies.size).toBe(0)
    await until(() => tab.session === undefined && otherTab.session === undefined)
  })

  it('says what to configure where GET /session is off, cookies are not stored, or the service has none', async () => {
    const longLived = openTab({ fetch: service.fetch })
    await expect(longLived.logIn()).rejects.toMatchObject({
      code: 'PROTOCOL',
      message: expect.stringContaining('cookies')
    })
    await expect(service.client().logIn()).rejects.toThrow("mode: 'cookie'")
    service = await startClientService({ useCookies: true, sessionPath: undefined })
    await expect(openTab().ready).rejects.toMatchObject({ code: 'PROTOCOL' })
  })
})

describe('a client with cookies whose service is not reached at first', () =>
  it('says so by ready, and reads the session with the next request', async () => {
    await openTab().logIn()
    service.lose()
    const auth = openTab()
    await expect(auth.ready).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(auth.session).toBeUndefined()
    service.intercept(() => undefined)
    expect(await requestStatus(auth)).toBe(200)
    expect(auth.session?.did).toBe(alice.did)
  }))

describe('a client with cookies on a server that renders pages', () =>
  it('asks for nothing and never refreshes', async () => {
    await openTab().logIn()
    const before = service.exchanges.length
    setGlobals({ window: undefined, navigator: undefined })
    service.clock.seconds += 700
    const auth = openTab()
    await auth.ready
    expect(auth.session).toBeUndefined()
    expect(service.exchanges.length).toBe(before)
    expect(await requestStatus(auth)).toBe(401)
    expect(service.count('/refresh-token')).toBe(0)
  }))
