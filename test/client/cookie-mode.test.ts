import { beforeEach, describe, expect, it } from '@jest/globals'
import type { DidAuthClient } from 'express-did-auth-client'
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
} from '../support/servers/client-service.js'
import { until } from '../support/fixtures/until.js'
import { createNumberedWallet, START_SECONDS } from '../support/fixtures/fixtures.js'

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

/** Opens a tab whose token has expired. */
const outdated = () => service.outdated(cookieOptions())

describe('DidAuthClient in cookie mode', () => {
  it('has no session before a login, and has it after the login and after a reload', async () => {
    const auth = openTab()
    await auth.ready
    expect(auth.session).toBeUndefined()
    const session = await auth.logIn()
    expect(session).toEqual({ did: alice.did, sessionId: expect.any(String), expiresAt: START_SECONDS + 600 })
    expect(session.claims).toBeUndefined()
    expect(await requestStatus(auth)).toBe(200)
    const reloaded = openTab()
    await reloaded.ready
    expect(reloaded.session).toEqual(session)
  })

  it('reports that the browser stored no cookie', async () => {
    const failed = openTab({ fetch: service.fetch }).logIn()
    const userMessage = 'Your browser stored no cookie. Open the page over https.'
    await expect(failed).rejects.toMatchObject({ code: 'PROTOCOL', userMessage })
  })

  it('stores no token where a script can read it', async () => {
    const auth = await outdated()
    await requestStatus(auth)
    const [accessToken, refreshToken] = [...jar.cookies.values()]
    const storedText = JSON.stringify([...storage.values])
    expect(storedText).not.toContain(accessToken!)
    expect(storedText).not.toContain(refreshToken!)
    expect(service.exchanges.some(({ headers }) => headers.has('authorization'))).toBe(false)
  })

  it('refreshes once for ten tabs, which read the new expiry without the lock', async () => {
    const first = openTab()
    await first.logIn()
    const tabs = [first, ...Array.from({ length: 9 }, () => openTab())]
    await Promise.all(tabs.map(({ ready }) => ready))
    service.clock.seconds += 700
    expect(await Promise.all(tabs.map(requestStatus))).toEqual(Array(10).fill(200))
    expect(service.count('/refresh-token')).toBe(1)
    expect(first.session?.expiresAt).toBe(START_SECONDS + 1_300)
  })

  it('refreshes once for ten new tabs when only the refresh cookie is valid', async () => {
    await outdated()
    const tabs = Array.from({ length: 10 }, () => openTab())
    await Promise.all(tabs.map(({ ready }) => ready))
    expect(await Promise.all(tabs.map(requestStatus))).toEqual(Array(10).fill(200))
    expect(service.count('/refresh-token')).toBe(1)
  })

  it('stays signed in when a response is lost: the next page refreshes an hour later', async () => {
    // The closed page has no time limits any more.
    fakeClientTime()
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

  it('continues if the storage was cleared, because the cookies decide', async () => {
    const auth = openTab()
    await auth.logIn()
    storage.values.clear()
    service.clock.seconds += 700
    expect(await requestStatus(auth)).toBe(200)
  })

  it('signs out when its session was revoked, without POST /logout, which could hit newer cookies', async () => {
    fakeClientTime(200)
    const auth = await outdated()
    await service.requireDid.sessions.revokeAll(alice.did)
    await expect(auth.fetch('/me')).rejects.toMatchObject({ code: 'SESSION_ENDED' })
    expect(auth.session).toBeUndefined()
    expect(service.count('/logout')).toBe(0)
  })

  it('does not take a non-empty response for a refresh', async () => {
    const auth = await outdated()
    service.intercept(({ path }) => (path === '/refresh-token' ? Response.json({ free: 'wifi' }) : undefined))
    await expect(auth.fetch('/me')).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(auth.session).toBeDefined()
  })

  it('shares one user among all tabs: a login in one tab replaces the session of the others', async () => {
    const [tab, otherTab] = [openTab(), openTab({ wallet: createPlainWallet(createNumberedWallet(2)) })]
    await tab.logIn()
    await until(() => otherTab.session?.did === alice.did)
    await otherTab.logIn()
    await until(() => tab.session?.did === createNumberedWallet(2).did)
    expect(await requestStatus(tab)).toBe(200)
  })

  it('stays signed in if the logout does not reach the service, and signs out once it does', async () => {
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

  it('logs out after a refresh of another tab in flight, so that no cookie returns', async () => {
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

  it('names the setting to fix if GET /session is off, cookies are not stored, or cookie mode is off', async () => {
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

describe('DidAuthClient in cookie mode with a stale cookie at another path', () => {
  /** Adds stale cookies to requests for some paths, until an answer deletes those of the path. */
  const withStaleCookies = (isAffected: (path: string) => boolean, canDelete = true): typeof fetch => {
    let isStale = true
    const wrapped = jar.wrap(async (input, init) => {
      const headers = new Headers(init?.headers)
      const cookie = headers.get('cookie')
      const stale = isStale && isAffected(new URL(new Request(input).url).pathname)
      if (stale) headers.set('Cookie', [cookie, 'authorization=x; refresh-token=x'].filter(Boolean).join('; '))
      const answer = await service.fetch(input, { ...init, headers })
      if (canDelete && stale && answer.headers.getSetCookie().length > 2) isStale = false
      return answer
    })
    return wrapped
  }
  const code = 'DUPLICATE_COOKIE'
  const userMessage = "Your browser has an old cookie. Delete this site's cookies, and log in again."

  it.each([
    ['logs in at the second attempt', true],
    ['says so at each attempt, if the service cannot delete the cookie', false]
  ])('says so at the login, and %s', async (_what, canDelete) => {
    const auth = openTab({ fetch: withStaleCookies(() => true, canDelete) })
    await expect(auth.logIn()).rejects.toMatchObject({ code, retryable: false, userMessage })
    if (canDelete) expect(await auth.logIn()).toMatchObject({ did: alice.did })
    else await expect(auth.logIn()).rejects.toMatchObject({ code })
  })

  it('says so when a refresh is refused, and not that the service cannot be reached', async () => {
    const auth = openTab({ fetch: withStaleCookies((path) => path === '/refresh-token') })
    await auth.logIn()
    service.clock.seconds += 700
    await expect(auth.fetch('/me')).rejects.toMatchObject({ code, retryable: false, userMessage, status: 401 })
    expect(service.count('/refresh-token')).toBe(1)
  })
})

describe('DidAuthClient in cookie mode while the service is unavailable', () =>
  it('rejects ready, and reads the session with the next request', async () => {
    await openTab().logIn()
    service.lose()
    const auth = openTab()
    await expect(auth.ready).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(auth.session).toBeUndefined()
    service.intercept(() => undefined)
    expect(await requestStatus(auth)).toBe(200)
    expect(auth.session?.did).toBe(alice.did)
  }))

describe('DidAuthClient in cookie mode on a server that renders pages', () =>
  it('sends no request and never refreshes', async () => {
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
