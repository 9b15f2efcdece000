import { beforeEach, describe, expect, it, jest } from '@jest/globals'
import {
  type ClientSession,
  type ClientStorage,
  type DidAuthClient,
  indexedDb,
  local,
  memory,
  session
} from 'express-did-auth-client'
import {
  alice,
  requestStatus,
  type ClientService,
  createPlainWallet,
  setGlobals,
  setPage,
  createSharedStorage,
  startClientService
} from '../support/servers/client-service.js'
import { fakeDatabase } from '../support/fixtures/fake-database.js'
import { until } from '../support/fixtures/until.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const bob = createNumberedWallet(2)

let service: ClientService
let storage: ReturnType<typeof createSharedStorage>

beforeEach(async () => {
  service = await startClientService()
  storage = createSharedStorage()
})

const openTab = (options = {}): DidAuthClient => service.client({ storage, ...options })

describe('DidAuthClient.session', () => {
  it('is lost after a reload with memory(), and restored from a storage for the first request', async () => {
    await service.client().logIn()
    const forgetful = service.client()
    await forgetful.ready
    expect(forgetful.session).toBeUndefined()

    const session = await openTab().logIn()
    expect(await requestStatus(openTab())).toBe(200)
    const reloaded = openTab()
    await reloaded.ready
    expect(reloaded.session).toEqual(session)
  })

  it('has the claims of the current access token, after a login, a refresh and a reload', async () => {
    service = await startClientService({
      authenticationBusinessLogic: () => ({ tokenClaims: { role: 'reader' } }),
      refreshBusinessLogic: () => ({ tokenClaims: { role: 'editor' } })
    })
    const auth = openTab()
    const { did, sessionId } = await auth.logIn()
    const { claims } = auth.session!
    expect(claims).toMatchObject({ sub: did, sid: sessionId, exp: auth.session!.expiresAt, role: 'reader' })
    service.clock.seconds += 600
    expect(await requestStatus(auth)).toBe(200)
    expect(auth.session!.claims).toMatchObject({ exp: auth.session!.expiresAt, role: 'editor' })
    const reloaded = openTab()
    await reloaded.ready
    expect(reloaded.session!.claims).toEqual(auth.session!.claims)
    expect([...storage.values.values()].join()).not.toContain('editor')
    await auth.logOut()
    expect(auth.session).toBeUndefined()
  })

  it('is stored under keys of the URL and the DID; other texts under them count as empty', async () => {
    await openTab().logIn()
    const keys = [...storage.values.keys()]
    expect(keys.sort()).toEqual([`did-auth:${service.url}`, `did-auth:${service.url} ${alice.did}`])
    for (const text of ['', '{', '{}', 'null', '[1]', '{"did":1}', '{"did":"a","sessionId":"b","pair":"c"}']) {
      storage.values.set(keys[1]!, text)
      const auth = openTab()
      await auth.ready
      expect(auth.session).toBeUndefined()
    }
  })

  it('reports changes to subscribers until they unsubscribe', async () => {
    const auth = service.client()
    const changes: (ClientSession | undefined)[] = []
    const end = auth.subscribe((session) => changes.push(session))
    const session = await auth.logIn()
    await auth.fetch('/me')
    await auth.logOut()
    end()
    await auth.logIn()
    expect(changes).toEqual([session, undefined])
  })

  it('belongs to one user per tab: a login in one tab does not change the other', async () => {
    const [tab, otherTab] = [openTab(), openTab({ wallet: createPlainWallet(bob) })]
    await tab.logIn()
    await until(() => otherTab.session?.did === alice.did)
    // This tab was Alice's and is now Bob's. Alice's session has ended everywhere.
    await otherTab.logIn()
    await until(() => tab.session === undefined)
    await tab.logIn()
    expect([tab.session?.did, otherTab.session?.did]).toEqual([alice.did, bob.did])
    service.clock.seconds += 700
    expect([await requestStatus(tab), await requestStatus(otherTab)]).toEqual([200, 200])
  })

  it('is shared with a tab that was open before the login', async () => {
    const [tab, otherTab] = [openTab(), openTab()]
    const session = await tab.logIn()
    await until(() => otherTab.session !== undefined)
    expect(otherTab.session).toEqual(session)
    expect(await requestStatus(otherTab)).toBe(200)
  })
})

describe('DidAuthClient with local()', () =>
  it('uses the session of another tab once its own tab can read it', async () => {
    const page = setPage()
    const area = webStorage()
    setGlobals({ localStorage: webStorage(), BroadcastChannel: undefined })
    const auth = openTab({ storage: local() })
    await auth.ready
    setGlobals({ localStorage: area })
    const session = await openTab({ storage: local() }).logIn()
    const key = `did-auth:${service.url}`
    page.dispatchEvent(Object.assign(new Event('storage'), { key: 'of the page' }))
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(auth.session).toBeUndefined()
    page.dispatchEvent(Object.assign(new Event('storage'), { key }))
    await until(() => auth.session !== undefined)
    expect(auth.session).toEqual(session)
  }))

describe('DidAuthClient.logOut', () => {
  it('ends the session at the service, in the storage and in the other tabs', async () => {
    const onSignedOut = jest.fn()
    const tabs = [openTab({ onSignedOut }), openTab({ onSignedOut }), openTab({ onSignedOut })]
    await tabs[0]!.logIn()
    await until(() => tabs.every(({ session }) => session !== undefined))
    await tabs[0]!.logOut()
    await until(() => tabs.every(({ session }) => session === undefined))
    expect(storage.values.size).toBe(0)
    expect(await service.requireDid.sessions.list(alice.did)).toEqual([])
    expect(onSignedOut).toHaveBeenCalledTimes(3)
    expect(onSignedOut.mock.calls.flat()).toEqual(Array(3).fill(expect.objectContaining({ reason: 'loggedOut' })))
  })

  it('deletes the tokens in header mode even if the service is unavailable, and reports that', async () => {
    const auth = openTab()
    await auth.logIn()
    service.lose()
    await expect(auth.logOut()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(auth.session).toBeUndefined()
    expect(storage.values.size).toBe(0)
  })

  it('succeeds for an ended session, and without one', async () => {
    const auth = openTab()
    await auth.logIn()
    service.clock.seconds += 700
    await service.requireDid.sessions.revokeAll(alice.did)
    await auth.logOut()
    await auth.logOut()
    expect(auth.session).toBeUndefined()
  })

  it('reaches a tab that missed the event with its next refresh', async () => {
    const [tab, otherTab] = [openTab(), openTab()]
    await tab.logIn()
    await until(() => otherTab.session !== undefined)
    storage.values.clear()
    service.clock.seconds += 700
    const ended = { code: 'SESSION_ENDED', reason: 'loggedOut', userMessage: expect.stringContaining('Log in again') }
    await expect(otherTab.fetch('/me')).rejects.toMatchObject(ended)
  })
})

describe('DidAuthClient.sessions and revoke', () => {
  it("list the user's sessions, and end one, or the current one", async () => {
    const [auth, phone] = [openTab(), service.client()]
    await auth.logIn()
    await phone.logIn()
    const listed = await auth.sessions()
    expect(listed.map(({ isCurrent }) => isCurrent).sort()).toEqual([false, true])
    await auth.revoke(phone.session!.sessionId)
    expect(await auth.sessions()).toHaveLength(1)
    await expect(auth.revoke('another')).rejects.toMatchObject({ status: 404, serverCode: 'ERR_SESSION_NOT_FOUND' })
    await auth.revoke(auth.session!.sessionId)
    expect(auth.session).toBeUndefined()
  })

  it('throw NOT_SIGNED_IN without a session, and PROTOCOL if the service has no such route', async () => {
    await expect(openTab().sessions()).rejects.toMatchObject({ code: 'NOT_SIGNED_IN' })
    await expect(openTab().revoke('a')).rejects.toMatchObject({ code: 'NOT_SIGNED_IN' })
    const auth = openTab({ paths: { sessions: '/nowhere' } })
    await auth.logIn()
    await expect(auth.sessions()).rejects.toMatchObject({ code: 'PROTOCOL' })
    service.intercept(({ path }) => (path === '/nowhere' ? Response.json({}) : undefined))
    await expect(auth.sessions()).rejects.toMatchObject({ code: 'PROTOCOL' })
  })
})

describe('DidAuthClient with a failing storage', () =>
  it("fails the request with the storage's error, and keeps the session", async () => {
    let fails = false
    const attempt = <T>(run: () => T): T => {
      if (fails) throw new Error('The disk is full')
      return run()
    }
    const failing: ClientStorage = {
      get: (key) => attempt(() => storage.get(key)),
      set: (key, value) => attempt(() => storage.set(key, value)),
      delete: (key) => attempt(() => storage.delete(key)),
      lock: (_name, run) => run()
    }
    const auth = await service.outdated({ storage: failing })
    fails = true
    await expect(auth.fetch('/me')).rejects.toThrow('The disk is full')
    fails = false
    expect(await requestStatus(auth)).toBe(200)
  }))

/** Creates a `localStorage` on a Map. */
function webStorage(values = new Map<string, string>()) {
  return {
    values,
    getItem: (key: string) => values.get(key) ?? null,
    setItem: (key: string, value: string) => void values.set(key, value),
    removeItem: (key: string) => void values.delete(key)
  }
}

async function goThrough(storage: ClientStorage): Promise<unknown[]> {
  const before = await storage.get('a')
  await storage.set('a', '1')
  await storage.set('a', '2')
  const after = await storage.get('a')
  await storage.delete('a')
  return [before ?? undefined, after, (await storage.get('a')) ?? undefined]
}

describe('the storages', () => {
  it.each([
    ['memory()', memory],
    ['local() without a browser', local],
    ['session() without a browser', session],
    ['indexedDb() without a browser', indexedDb]
  ])('%s stores values while the process runs', async (_name, make) => {
    expect(await goThrough(make())).toEqual([undefined, '2', undefined])
  })

  it('local() and session() store values in their areas', async () => {
    const [localStorage, sessionStorage] = [webStorage(), webStorage()]
    setGlobals({ localStorage, sessionStorage })
    await local().set('a', '1')
    await session().set('a', '2')
    expect([localStorage.values.get('a'), sessionStorage.values.get('a')]).toEqual(['1', '2'])
    expect(await goThrough(local())).toEqual(['1', '2', undefined])
    expect(localStorage.values.size).toBe(0)
  })

  it('local() stores values in memory if the area is full', async () => {
    const full = webStorage(new Map([['a', 'old']]))
    full.setItem = () => {
      throw new DOMException('full', 'QuotaExceededError')
    }
    setGlobals({ localStorage: full })
    expect(await goThrough(local())).toEqual(['old', '2', undefined])
  })

  it('local() stores values in memory if the user has blocked storage', async () => {
    setGlobals({ localStorage: undefined })
    Object.defineProperty(globalThis, 'localStorage', {
      configurable: true,
      get() {
        throw new DOMException('denied', 'SecurityError')
      }
    })
    expect(await goThrough(local())).toEqual([undefined, '2', undefined])
  })

  it('indexedDb() stores values in a database, closes it each time, and reports failures', async () => {
    const database = fakeDatabase()
    setGlobals({ indexedDB: database.working })
    await indexedDb().set('b', '1')
    expect(database.values.get('b')).toBe('1')
    expect(await goThrough(indexedDb())).toEqual([undefined, '2', undefined])
    expect(database.opened()).toBe(0)
    setGlobals({ indexedDB: database.broken })
    await expect(indexedDb().get('b')).rejects.toThrow('IndexedDB failed')
  })

  it('only memory() reports that no other tab sees it', () => {
    const storages = [memory(), local(), session()]
    expect(storages.map(({ isPrivate }) => isPrivate === true)).toEqual([true, false, false])
  })
})
