import { beforeEach, describe, expect, it } from '@jest/globals'
import { memory, session, type DidAuthClient, type DidAuthClientOptions } from 'express-did-auth-client'
import { catchFailure } from '../support/fixtures/client-error.js'
import { fakeDatabase } from '../support/fixtures/fake-database.js'
import { until } from '../support/fixtures/until.js'
import {
  alice,
  CookieJar,
  createPlainWallet,
  createSharedStorage,
  fakeClientTime,
  fakeLocks,
  requestStatus,
  setGlobals,
  startClientService,
  type ClientService
} from '../support/servers/client-service.js'

let service: ClientService
let database: ReturnType<typeof fakeDatabase>

beforeEach(async () => {
  service = await startClientService({ deviceBinding: 'accepted' })
  database = fakeDatabase()
  setGlobals({ navigator: { locks: fakeLocks() }, window: {}, indexedDB: database.working })
})

const url = 'https://service.example'
/** Proofs name the address of the service, and the requests go to the test's server. */
const fetch: typeof globalThis.fetch = (input, init) => service.fetch((input as string).replace(url, service.url), init)
const options = (more: Partial<DidAuthClientOptions>) => ({ url, fetch, deviceKey: true, ...more })
const logIn = (more: Partial<DidAuthClientOptions>): Promise<DidAuthClient> => service.signedIn(options(more))
const setDatabase = (indexedDB: unknown): void => setGlobals({ indexedDB })

describe('the key of a device in IndexedDB', () => {
  it.each([
    ['memory()', memory, 0],
    ['session()', session, 1]
  ])('survives the logout of another tab with %s', async (_name, createStorage, stored) => {
    const tabs = [await logIn({ storage: createStorage() }), await logIn({ storage: createStorage() })] as const
    expect(tabs.map((tab) => tab.session?.isDeviceBound)).toEqual([true, true])
    await tabs[0].logOut()
    service.clock.seconds += 700
    expect(await requestStatus(tabs[1])).toBe(200)
    expect(tabs[1].session).toMatchObject({ isDeviceBound: true })
    expect(database.values.size).toBe(stored)
  })

  it('cannot be exported by scripts', async () => {
    await logIn({ storage: createSharedStorage() })
    const [{ privateKey }] = [...database.values.values()] as [{ privateKey: { extractable: boolean } }]
    expect(privateKey.extractable).toBe(false)
  })

  it('is shared by tabs with one storage, survives a reload, and is deleted at the logout', async () => {
    const storage = createSharedStorage()
    const auth = await logIn({ storage })
    service.clock.seconds += 700
    const reloaded = service.client(options({ storage }))
    expect(await requestStatus(reloaded)).toBe(200)
    expect([reloaded.session?.isDeviceBound, database.values.size]).toEqual([true, 1])
    await auth.logOut()
    await until(() => database.values.size === 0)
  })

  it('is stored for a session in cookies with memory(), because the cookie survives a reload', async () => {
    service = await startClientService({ deviceBinding: 'accepted', useCookies: true })
    const cookies = new CookieJar()
    const open = () => service.client(options({ storage: memory(), mode: 'cookie', fetch: cookies.wrap(fetch) }))
    await open().logIn({ wallet: createPlainWallet(alice) })
    expect(database.values.size).toBe(1)
    const reloaded = open()
    service.clock.seconds += 700
    expect(await requestStatus(reloaded)).toBe(200)
    expect(reloaded.session).toMatchObject({ isDeviceBound: true })
  })

  it('stays at the logout of a client with a given pair', async () => {
    const auth = await logIn({ storage: createSharedStorage() })
    const algorithm = { name: 'ECDSA', namedCurve: 'P-256' }
    const deviceKey = await crypto.subtle.generateKey(algorithm, false, ['sign', 'verify'])
    await (await logIn({ storage: createSharedStorage(), deviceKey })).logOut()
    service.clock.seconds += 700
    expect(await requestStatus(auth)).toBe(200)
  })

  it('does not delay a logout', async () => {
    const auth = await logIn({ storage: createSharedStorage() })
    setDatabase(database.silent)
    await auth.logOut()
    expect([auth.session, service.count('/logout')]).toEqual([undefined, 1])
  })
})

describe('a login in a browser that cannot store a key', () => {
  it.each(['absent', 'broken', 'full', 'blocked'] as const)('opens an unbound session: %s', async (state) => {
    setDatabase(state === 'absent' ? undefined : database[state])
    const storage = createSharedStorage()
    const auth = await logIn({ storage })
    expect(auth.session).toMatchObject({ isDeviceBound: false })
    service.clock.seconds += 700
    expect(await requestStatus(service.client(options({ storage })))).toBe(200)
    expect(service.exchanges.filter(({ headers }) => headers.has('DPoP'))).toEqual([])
  })

  it('opens an unbound session if IndexedDB does not answer within 8 s', async () => {
    const time = fakeClientTime()
    setDatabase({
      open: () => {
        setImmediate(() => time.endTimeouts(8_000))
        return database.silent.open()
      }
    })
    const auth = await logIn({ storage: createSharedStorage() })
    expect(auth.session).toMatchObject({ isDeviceBound: false })
  })
})

describe('a bound session after a reload', () => {
  const reload = async (): Promise<DidAuthClient> => {
    const storage = createSharedStorage()
    expect((await logIn({ storage })).session).toMatchObject({ isDeviceBound: true })
    service.clock.seconds += 700
    return service.client(options({ storage }))
  }

  it.each(['absent', 'blocked'] as const)('ends if IndexedDB is %s', async (state) => {
    fakeClientTime(200)
    const reloaded = await reload()
    setDatabase(state === 'absent' ? undefined : database[state])
    expect(await catchFailure(reloaded.fetch('/me'))).toMatchObject({ code: 'SESSION_ENDED', reason: 'deviceLost' })
    expect(service.count('/refresh-token')).toBe(0)
  })

  it('continues after a failure of IndexedDB', async () => {
    fakeClientTime(500, 1_000)
    const reloaded = await reload()
    setDatabase(database.broken)
    expect(await catchFailure(reloaded.fetch('/me'))).toMatchObject({ code: 'UNAVAILABLE' })
    expect(service.count('/refresh-token')).toBe(0)
    setDatabase(database.working)
    expect(await requestStatus(reloaded)).toBe(200)
  })

  it('continues after IndexedDB was silent for 8 s at each attempt', async () => {
    const time = fakeClientTime(500, 1_000)
    const reloaded = await reload()
    await reloaded.ready
    let openings = 0
    setDatabase({
      open: () => {
        openings += 1
        setImmediate(() => time.endTimeouts(8_000))
        return database.silent.open()
      }
    })
    expect(await catchFailure(reloaded.fetch('/me'))).toMatchObject({ code: 'UNAVAILABLE' })
    expect([openings, service.count('/refresh-token')]).toEqual([3, 0])
    setDatabase(database.working)
    expect(await requestStatus(reloaded)).toBe(200)
  })
})
