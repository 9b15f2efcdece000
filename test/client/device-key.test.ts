import { beforeEach, describe, expect, it, jest } from '@jest/globals'
import type { DidAuthConfig, SecurityEvent } from 'express-did-auth'
import type { DidAuthClient, DidAuthClientOptions } from 'express-did-auth-client'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import { catchFailure } from '../support/fixtures/client-error.js'
import { createSiweText } from '../support/fixtures/siwe.js'
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
import { resourceKey, type Host } from '../support/servers/test-app.js'

/** Address by which clients and proofs name the service. The test's server has a free port. */
const url = 'https://service.example'

let service: ClientService
let events: SecurityEvent[]

async function start(config: Partial<DidAuthConfig> = {}, host: Host = {}): Promise<void> {
  events = []
  const onSecurityEvent = (event: SecurityEvent): void => void events.push(event)
  service = await startClientService({ deviceBinding: 'accepted', siwe: true, onSecurityEvent, ...config }, host)
}

/** Sends the requests of `url` to the test's server. */
const fetchByUrl: typeof fetch = (input, init) => {
  const address = input instanceof Request ? input.url : String(input)
  const here = address.replace(url, service.url)
  return service.fetch(input instanceof Request ? new Request(here, input) : here, init)
}

const options = (more: Partial<DidAuthClientOptions> = {}): Partial<DidAuthClientOptions> => ({
  url,
  deviceKey: true,
  fetch: fetchByUrl,
  ...more
})
const logIn = (more?: Partial<DidAuthClientOptions>): Promise<DidAuthClient> => service.signedIn(options(more))
const outdated = (more?: Partial<DidAuthClientOptions>): Promise<DidAuthClient> => service.outdated(options(more))

const createKeyPair = () => crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign', 'verify'])

/** Returns the proofs that were sent to a path. */
const proofs = (path: string): string[] =>
  service.exchanges.flatMap((exchange) => (exchange.path === path ? (exchange.headers.get('DPoP') ?? []) : []))

beforeEach(async () => {
  setGlobals({ navigator: { locks: fakeLocks() } })
  await start()
})

describe('a client with deviceKey', () => {
  it('binds its session at the login, and refreshes it with a new proof', async () => {
    const auth = await outdated()
    expect(auth.session).toMatchObject({ isDeviceBound: true })
    expect(await requestStatus(auth)).toBe(200)
    const [login = '', refresh = ''] = [...proofs('/auth'), ...proofs('/refresh-token')]
    expect(decodeProtectedHeader(login)).toEqual({
      typ: 'dpop+jwt',
      alg: 'ES256',
      jwk: { kty: 'EC', crv: 'P-256', x: expect.any(String), y: expect.any(String) }
    })
    expect(decodeJwt(login)).toEqual({
      jti: expect.stringMatching(/^[0-9a-f]{32}$/),
      htm: 'POST',
      htu: `${url}/auth`,
      iat: expect.any(Number),
      nonce: expect.stringMatching(/^[0-9a-f]{64}$/)
    })
    expect(decodeJwt(refresh)).toMatchObject({ htu: `${url}/refresh-token` })
    expect(decodeJwt(refresh).jti).not.toBe(decodeJwt(login).jti)
    expect(decodeProtectedHeader(refresh).jwk).toEqual(decodeProtectedHeader(login).jwk)
    expect(auth.session).toMatchObject({ isDeviceBound: true })
  })

  it.each(['sign up', 'EIP-4361'])('binds a session of %s', async (kind) => {
    const auth = service.client(options())
    const session = await (kind === 'EIP-4361' ? auth.logIn({ message: 'siwe' }) : auth.signUp())
    expect(session).toMatchObject({ isDeviceBound: true })
    service.clock.seconds += 700
    expect(await requestStatus(auth)).toBe(200)
  })

  it('repeats a login and a refresh once with the new nonce if the nonce has expired', async () => {
    await start({ challengeExpirationTimeInSeconds: 2_000 })
    const signer = createPlainWallet(alice)
    const signMessage = (text: string) => {
      // The user takes longer in the wallet than a nonce is valid.
      service.clock.seconds += 1_000
      return signer.signMessage(text)
    }
    const auth = await logIn({ wallet: { ...signer, signMessage } })
    expect(service.exchanges.map(({ path, status }) => `${path} ${status}`)).toEqual([
      '/request-auth 200',
      '/auth 401',
      '/auth 200'
    ])
    service.clock.seconds += 1_000
    expect(await requestStatus(auth)).toBe(200)
    const statuses = service.exchanges.filter(({ path }) => path === '/refresh-token').map(({ status }) => status)
    expect(statuses).toEqual([401, 200])
    expect(new Set([...proofs('/auth'), ...proofs('/refresh-token')]).size).toBe(4)
  })

  it('does not repeat a request again whose new nonce is refused', async () => {
    const auth = await outdated()
    const refusal = { title: 'Device proof needs a new nonce', code: 'ERR_DEVICE_NONCE' }
    service.intercept(({ path }) => (path === '/refresh-token' ? Response.json(refusal, { status: 401 }) : undefined))
    expect(await catchFailure(auth.fetch('/me'))).toMatchObject({ code: 'UNAVAILABLE' })
    expect(proofs('/refresh-token')).toHaveLength(2)
    service.intercept(() => undefined)
    expect(await requestStatus(auth)).toBe(200)
  })

  it('repeats a refresh whose response was lost with a new proof and the same idempotency key', async () => {
    fakeClientTime(500, 1_000)
    const auth = await outdated()
    let isLost = false
    service.interceptAnswer(({ path }, response) => {
      if (path !== '/refresh-token' || isLost) return response
      isLost = true
      throw new TypeError('fetch failed')
    })
    expect(await requestStatus(auth)).toBe(200)
    const refreshes = service.exchanges.filter(({ path }) => path === '/refresh-token')
    expect(refreshes.map(({ status }) => status)).toEqual([200, 200])
    expect(new Set(refreshes.map(({ headers }) => headers.get('Idempotency-Key'))).size).toBe(1)
    expect(new Set(proofs('/refresh-token')).size).toBe(2)
  })

  it('uses a given pair of keys, also in another client object', async () => {
    const deviceKey = await createKeyPair()
    const storage = createSharedStorage()
    await outdated({ deviceKey, storage })
    const reloaded = service.client(options({ deviceKey, storage }))
    expect(await requestStatus(reloaded)).toBe(200)
    expect(reloaded.session).toMatchObject({ isDeviceBound: true })
  })

  it.each([
    ['ECDSA', 'P-384', 'sign'],
    ['ECDH', 'P-256', 'deriveBits']
  ])('refuses a given pair of %s with %s, and sends no proof', async (name, namedCurve, usage) => {
    const deviceKey = await crypto.subtle.generateKey({ name, namedCurve }, false, [usage as 'sign'])
    await expect(service.client(options({ deviceKey })).logIn()).rejects.toThrow(TypeError('deviceKey: not P-256'))
    expect(service.paths()).toEqual(['/request-auth'])
  })

  it('binds a session of an EIP-4361 text whose nonce another part of the page has fetched', async () => {
    const answer = await fetch(`${service.url}/siwe/nonce`, { method: 'POST' })
    const { nonce } = (await answer.json()) as { nonce: string }
    const auth = service.client(options({ domain: 'service.example' }))
    const siwe = await auth.siwe()
    const { address } = siwe.fields({ address: alice.address, chainId: 30, nonce })
    const message = createSiweText({ address: address as `0x${string}` }, nonce, { uri: url })
    const session = await siwe.verify({ message, signature: alice.personalSign(message) })
    expect(session).toMatchObject({ isDeviceBound: true })
    await siwe.nonce()
    expect(service.count('/siwe/nonce')).toBe(1)
  })

  it('opens an unbound session at a service that binds none, and refreshes it without proof', async () => {
    await start({ deviceBinding: 'off' })
    const auth = await outdated()
    expect(auth.session).toMatchObject({ isDeviceBound: false })
    expect(await requestStatus(auth)).toBe(200)
    expect([...proofs('/auth'), ...proofs('/refresh-token')]).toEqual([])
  })

  it('fails to log in if the service refuses the proof, and tells users to contact the operator', async () => {
    // The service does not know this address, which the proof names.
    const auth = service.client(options({ url: service.url, fetch: service.fetch, serviceUrl: undefined }))
    expect(await catchFailure(auth.logIn())).toMatchObject({
      code: 'CROSS_ORIGIN',
      serverCode: 'ERR_DEVICE_PROOF',
      userMessage: 'The service refused this client. Contact its operator.'
    })
  })

  it('creates a new key after a logout', async () => {
    const auth = await logIn()
    await auth.logOut()
    await auth.logIn()
    const keys = proofs('/auth').map((proof) => decodeProtectedHeader(proof).jwk?.x)
    expect(new Set(keys).size).toBe(2)
  })
})

describe('a bound session on a device without its key', () => {
  const storage = createSharedStorage()
  // Skips the pauses in which another tab may store newer tokens.
  beforeEach(() => void fakeClientTime(200))

  it('ends there with reason deviceLost, and the owner stays logged in', async () => {
    const owner = await outdated({ storage })
    const onSignedOut = jest.fn()
    const copy = createSharedStorage()
    for (const [name, value] of storage.values) copy.set(name, value)
    const thief = service.client(options({ storage: copy, deviceKey: undefined, onSignedOut }))
    const before = service.exchanges.length
    expect(await catchFailure(thief.fetch('/me'))).toMatchObject({
      code: 'SESSION_ENDED',
      reason: 'deviceLost',
      serverCode: 'ERR_DEVICE_PROOF',
      userMessage: 'Your session was ended: this device lost its key. Log in again.'
    })
    expect(service.paths().slice(before)).toEqual(['/refresh-token'])
    expect(events.map(({ type }) => type)).toContain('device-mismatch')
    expect([thief.session, copy.values.size, onSignedOut.mock.calls.length]).toEqual([undefined, 0, 1])
    expect(await requestStatus(owner)).toBe(200)
  })

  it('ends without a request if the client uses deviceKey', async () => {
    const owner = await outdated({ storage })
    const copy = createSharedStorage()
    for (const [name, value] of storage.values) copy.set(name, value)
    const reloaded = service.client(options({ storage: copy }))
    const before = service.exchanges.length
    expect(await catchFailure(reloaded.fetch('/me'))).toMatchObject({
      code: 'SESSION_ENDED',
      reason: 'deviceLost',
      message: 'deviceKey: not found',
      userMessage: 'Your session was ended: this device lost its key. Log in again.'
    })
    expect([service.exchanges.length, reloaded.session, copy.values.size]).toEqual([before, undefined, 0])
    expect(await requestStatus(owner)).toBe(200)
  })
})

it('binds a session in cookies, and remembers it after a reload', async () => {
  await start({ useCookies: true })
  setGlobals({ window: {} })
  const fetch = new CookieJar().wrap(fetchByUrl)
  const deviceKey = await createKeyPair()
  const cookies = { mode: 'cookie', storage: createSharedStorage(), fetch, deviceKey } as const
  expect((await logIn(cookies)).session).toMatchObject({ isDeviceBound: true })
  const reloaded = service.client(options(cookies))
  await reloaded.ready
  expect(reloaded.session).toMatchObject({ isDeviceBound: true })
  service.clock.seconds += 700
  expect(await requestStatus(reloaded)).toBe(200)
  expect(proofs('/refresh-token').length).toBeGreaterThan(0)
  fakeClientTime(200)
  const withoutKey = service.client(options({ ...cookies, deviceKey: true }))
  service.clock.seconds += 700
  const before = service.count('/refresh-token')
  expect(await catchFailure(withoutKey.fetch('/me'))).toMatchObject({ reason: 'deviceLost' })
  expect(service.count('/refresh-token')).toBe(before)
})

it('reports a session in cookies as bound only if the service says so', async () => {
  await start({ useCookies: true, deviceBinding: 'off' })
  service.interceptAnswer(({ path }, response) => {
    // The service binds nothing. This header makes the client send a proof, which then has no effect.
    if (path !== '/request-auth') return response
    return new Response(response.body, { headers: { ...Object.fromEntries(response.headers), 'DPoP-Nonce': 'f' } })
  })
  setGlobals({ window: {} })
  const deviceKey = await createKeyPair()
  const fetch = new CookieJar().wrap(fetchByUrl)
  const auth = await logIn({ mode: 'cookie', storage: createSharedStorage(), fetch, deviceKey })
  expect([proofs('/auth').length, auth.session?.isDeviceBound]).toEqual([1, undefined])
})

it.each(['https://service.example', 'https://service.example/v1/'])(
  'a client at an internal address proves the origin of serviceUrl, %s',
  async (serviceUrl) => {
    const auth = await outdated({ url: service.url, fetch: service.fetch, serviceUrl })
    expect(auth.session).toMatchObject({ isDeviceBound: true })
    expect((await auth.fetch('/me', { deviceProof: true })).status).toBe(200)
    for (const path of ['/auth', '/refresh-token', '/me'])
      expect(decodeJwt(proofs(path)[0]!).htu).toBe(`https://service.example${path}`)
  }
)

it('a refused URL of a proof is logged with its host, the expected origins and the option', async () => {
  const refused = service.signedIn({ url: service.url, fetch: service.fetch, serviceUrl: undefined, deviceKey: true })
  await expect(refused).rejects.toMatchObject({
    serverCode: 'ERR_DEVICE_PROOF',
    userMessage: expect.not.stringContaining('page')
  })
  const { host } = new URL(service.url)
  const reason = { check: 'htu', got: host, expected: [url], option: 'trustedOrigins' }
  expect(service.log.map(({ fields }) => fields)).toContainEqual(expect.objectContaining({ reason }))
})

describe('tokenFor of a bound session', () => {
  const resources = { resources: ['https://notes.example'], resourceKeys: [resourceKey(1)] }
  const readProof = () => decodeJwt(proofs('/resource-token').at(-1)!)

  it('proves the access token', async () => {
    await start(resources)
    const auth = await logIn()
    expect(decodeJwt(await auth.tokenFor('https://notes.example')).sid).toBe(auth.session?.sessionId)
    expect(readProof().ath).toHaveLength(43)
  })

  it('proves only the key in cookie mode, also after a reload, and to no other origin', async () => {
    await start({ ...resources, useCookies: true })
    setGlobals({ window: {} })
    const cookies = {
      mode: 'cookie',
      storage: createSharedStorage(),
      fetch: new CookieJar().wrap(fetchByUrl),
      deviceKey: await createKeyPair()
    } as const
    await logIn(cookies)
    const reloaded = service.client(options(cookies))
    await reloaded.tokenFor('https://notes.example')
    expect(readProof()).not.toHaveProperty('ath')
    service.intercept(({ path }) => (path === '/other' ? Response.json({}) : undefined))
    await reloaded.fetch('https://other.example/other', { deviceProof: true })
    expect(proofs('/other')).toEqual([])
  })

  it('has no proof without a binding', async () => {
    await start(resources)
    await (await logIn({ deviceKey: undefined })).tokenFor('https://notes.example')
    expect(proofs('/resource-token')).toEqual([])
  })
})

describe('fetch with deviceProof', () => {
  it('passes the guard that requires it', async () => {
    const after: Host['after'] = (app, requireDid) => {
      app.post('/proved', requireDid.with({ deviceProof: true }), (_req, res) => void res.sendStatus(200))
    }
    await start({}, { after })
    const auth = await logIn()
    const init = { method: 'post', body: '{}', headers: { 'Content-Type': 'application/json' } }
    expect((await auth.fetch('/proved', init)).status).toBe(401)
    expect((await auth.fetch('/proved', { ...init, deviceProof: true })).status).toBe(200)
    expect(proofs('/proved')).toHaveLength(1)
  })

  it('proves the access token, and repeats once with a new nonce', async () => {
    const auth = await logIn()
    service.clock.seconds += 100
    service.intercept(({ path, headers }) => {
      if (path !== '/me' || proofs('/me').length > 1) return undefined
      expect(headers.get('DPoP')).toBeTruthy()
      const init = { status: 401, headers: { 'DPoP-Nonce': 'f'.repeat(64) } }
      return Response.json({ title: 'Device proof needs a new nonce', code: 'ERR_DEVICE_NONCE' }, init)
    })
    expect((await auth.fetch('/me?a=1', { deviceProof: true, method: 'get' })).status).toBe(200)
    const [first = '', second = ''] = proofs('/me')
    const token = service.exchanges.at(-1)!.headers.get('Authorization')!.slice('DIDAuth '.length)
    const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(token)))
    const ath = Buffer.from(hash).toString('base64url')
    expect(decodeJwt(first)).toMatchObject({ htm: 'GET', htu: `${url}/me`, ath })
    expect(decodeJwt(second)).toMatchObject({ nonce: 'f'.repeat(64), ath })
  })

  it('sends no proof for an unbound session', async () => {
    const auth = await logIn({ deviceKey: undefined })
    expect((await auth.fetch('/me', { deviceProof: true })).status).toBe(200)
    expect(proofs('/me')).toEqual([])
  })
})
