import { beforeEach, describe, expect, it } from '@jest/globals'
import type { ClientStorage, DidAuthClient } from 'express-did-auth-client'
import {
  requestStatus,
  type ClientService,
  CookieJar,
  fakeClientTime,
  fakeLocks,
  openTabs,
  createPlainWallet,
  setGlobals,
  createSharedStorage,
  startClientService
} from '../support/servers/client-service.js'
import { until } from '../support/fixtures/until.js'
import { catchFailure } from '../support/fixtures/client-error.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

let service: ClientService

beforeEach(async () => {
  setGlobals({ navigator: { locks: fakeLocks() } })
  service = await startClientService()
})

const refreshes = (): number => service.count('/refresh-token')

describe('DidAuthClient: a refresh by ten tabs at once', () => {
  it.each([
    ['navigator.locks', () => createSharedStorage()],
    [
      'a lease in the storage',
      () => {
        setGlobals({ navigator: {} })
        return createSharedStorage()
      }
    ],
    ["the storage's own lock", () => ({ ...createSharedStorage(), lock: fakeLocks().request })]
  ])('sends one request with %s, and signs no tab out', async (_name, makeStorage) => {
    fakeClientTime(50)
    const tabs = await openTabs(service, 10, makeStorage())
    service.clock.seconds += 700
    const statuses = await Promise.all(tabs.map(requestStatus))
    expect(statuses).toEqual(Array(10).fill(200))
    expect(refreshes()).toBe(1)
    expect(new Set(tabs.map(({ session }) => session?.expiresAt)).size).toBe(1)
  })

  it('continues after 10 s if one tab is frozen in the lock, which stays signed in when it wakes up', async () => {
    const time = fakeClientTime()
    const [frozen, ...others] = await openTabs(service, 10)
    const { arrived, release } = service.hold('/refresh-token')
    service.clock.seconds += 700
    const refreshing = requestStatus(frozen!)
    await arrived
    const answers = others.map(requestStatus)
    await new Promise((resolve) => setImmediate(resolve))
    time.endTimeouts(10_000)
    expect(await Promise.all(answers)).toEqual(Array(9).fill(200))
    service.clock.seconds += 60
    release()
    expect(await refreshing).toBe(200)
    service.clock.seconds += 700
    expect(await Promise.all([frozen!, ...others].map(requestStatus))).toEqual(Array(10).fill(200))
  })
})

describe('DidAuthClient: a tab that is frozen before it sends its refresh', () => {
  it('uses the tokens that another tab got in the meantime, and sends no old one', async () => {
    const time = fakeClientTime()
    const storage = createSharedStorage()
    const [other] = await openTabs(service, 1, storage)
    let thaw = (): void => undefined
    const frozen = new Promise<void>((resolve) => (thaw = resolve))
    let isFrozen = false
    const set = async (key: string, value: string): Promise<void> => {
      await storage.set(key, value)
      isFrozen = true
      await frozen
    }
    const frozenTab = service.client({ storage: { ...storage, set } })
    await frozenTab.ready
    service.clock.seconds += 700
    const lateAnswer = requestStatus(frozenTab)
    await until(() => isFrozen)
    const answer = requestStatus(other!)
    await new Promise((resolve) => setImmediate(resolve))
    time.endTimeouts(10_000)
    expect(await answer).toBe(200)
    // After the grace period, an old token would revoke the session.
    service.clock.seconds += 60
    thaw()
    expect(await lateAnswer).toBe(200)
    expect(refreshes()).toBe(1)
  })
})

describe('DidAuthClient: a refresh whose response is lost', () => {
  it('is sent again immediately with the same key', async () => {
    fakeClientTime(500)
    const auth = await service.outdated()
    let lost = 0
    service.interceptAnswer(({ path }, response) => {
      if (path !== '/refresh-token' || lost > 0) return response
      lost += 1
      throw new TypeError('fetch failed')
    })
    expect(await requestStatus(auth)).toBe(200)
    const keys = service.exchanges.filter(({ path }) => path === '/refresh-token').map((exchange) => exchange.headers)
    expect(keys).toHaveLength(2)
    expect(keys[0]!.get('idempotency-key')).toMatch(/^[0-9a-f]{32}$/)
    expect(keys[1]!.get('idempotency-key')).toBe(keys[0]!.get('idempotency-key'))
  })

  it('is completed by the next page, long after the grace period, if the page was closed', async () => {
    // The closed page has no time limits any more.
    fakeClientTime()
    const storage = createSharedStorage()
    const [auth] = await openTabs(service, 1, storage)
    service.clock.seconds += 700
    const { arrived } = service.hold('/refresh-token')
    void requestStatus(auth!)
    await arrived
    setGlobals({ navigator: { locks: fakeLocks() } })
    service.clock.seconds += 3_600
    const reloaded = service.client({ storage })
    await reloaded.ready
    expect(await requestStatus(reloaded)).toBe(200)
  })
})

const TABS = 10
const ROUNDS = 10

/**
 * Creates a `localStorage` per tab, as tabs in separate processes see it: even with locks, writes of another tab arrive
 * late, in order.
 *
 * @param reads - number of reads after which a tab sees another's write
 */
function lateStorages(count: number, reads: number): ClientStorage[] {
  let writes = 0
  const tabs = Array.from({ length: count }, () => ({
    values: new Map<string, { value: string | undefined; number: number }>(),
    unseen: [] as { key: string; value: string | undefined; number: number; readsLeft: number }[]
  }))
  return tabs.map((tab) => {
    const write = (key: string, value: string | undefined): void => {
      writes += 1
      tab.values.set(key, { value, number: writes })
      for (const other of tabs) if (other !== tab) other.unseen.push({ key, value, number: writes, readsLeft: reads })
    }
    return {
      get(key) {
        for (const unseen of tab.unseen) unseen.readsLeft -= 1
        while (tab.unseen[0] !== undefined && tab.unseen[0].readsLeft < 0) {
          const { key: seenKey, value, number } = tab.unseen.shift()!
          if (number > (tab.values.get(seenKey)?.number ?? 0)) tab.values.set(seenKey, { value, number })
        }
        return tab.values.get(key)?.value
      },
      set: write,
      delete(key) {
        write(key, undefined)
      }
    }
  })
}

it.each([1, 3, 6])('ten tabs stay signed in if each sees the writes of another %d reads later', async (reads) => {
  fakeClientTime(200)
  const storages = lateStorages(TABS, reads)
  const first = await service.signedIn({ storage: storages[0]! })
  const others = storages.slice(1).map((storage) => {
    for (let read = 0; read <= reads; read += 1) void storage.get('')
    return service.client({ storage })
  })
  await Promise.all(others.map(({ ready }) => ready))
  const statuses: number[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    service.clock.seconds += 700
    const answers = await Promise.all([first, ...others].map((tab) => tab.fetch('/me')))
    statuses.push(...answers.map(({ status }) => status))
  }
  expect(statuses).toEqual(Array(TABS * ROUNDS).fill(200))
})

const bob = createNumberedWallet(2)

/** Returns the DID of the client at the service. */
async function readUser(auth: DidAuthClient): Promise<string> {
  const { user } = (await (await auth.fetch('/me')).json()) as { user: { did: string } }
  return user.did
}

/** Starts a refresh of Alice's client. The service has answered it, but the response has not arrived. */
async function startRefreshing(options = {}) {
  const ended: string[] = []
  const auth = await service.outdated({
    storage: createSharedStorage(),
    onAccountChange: 'ignore',
    onSignedOut: ({ reason }) => void ended.push(reason),
    ...options
  })
  const { arrived, release } = service.hold('/refresh-token')
  const refreshing = catchFailure(auth.fetch('/me'))
  await arrived
  return { auth, ended, refreshing, release }
}

describe.each(['header', 'cookie'] as const)('DidAuthClient: a login as another user, in mode %s', (mode) => {
  const options = () => (mode === 'cookie' ? { mode, fetch: new CookieJar().wrap(service.fetch) } : {})

  beforeEach(async () => {
    setGlobals({ window: {}, navigator: { locks: fakeLocks() } })
    service = await startClientService({ useCookies: mode === 'cookie' })
  })

  it('survives a late response to the refresh of the previous user', async () => {
    const { auth, ended, refreshing, release } = await startRefreshing(options())
    const login = auth.logIn({ wallet: createPlainWallet(bob) })
    await until(() => service.count('/request-auth') === 2)
    release()
    expect((await login).did).toBe(bob.did)
    await refreshing
    expect(auth.session?.did).toBe(bob.did)
    expect(await readUser(auth)).toBe(bob.did)
    expect(ended).toEqual([])
  })

  it('survives the delayed logout of the previous user', async () => {
    const { auth, refreshing, release } = await startRefreshing(options())
    const out = auth.logOut()
    const login = auth.logIn({ wallet: createPlainWallet(bob) })
    release()
    await Promise.all([out, login, refreshing])
    expect(auth.session?.did).toBe(bob.did)
    expect(await readUser(auth)).toBe(bob.did)
  })

  it("survives a late read of the previous user's stored tokens", async () => {
    const before = { ...options(), storage: createSharedStorage() }
    await service.client(before).logIn()
    let read = (): void => undefined
    const slow = new Promise<void>((resolve) => (read = resolve))
    const { get } = before.storage
    const storage: ClientStorage = { ...before.storage, get: (key) => slow.then(() => get(key)) }
    const auth = service.client({ ...before, storage })
    const login = auth.logIn({ wallet: createPlainWallet(bob) })
    await until(() => service.count('/request-auth') === 2)
    read()
    await login
    await auth.ready
    expect(auth.session?.did).toBe(bob.did)
    expect(await readUser(auth)).toBe(bob.did)
  })
})
