import { describe, expect, it, jest } from '@jest/globals'
import { memoryStore, type Store } from 'express-did-auth'
import { createDidAuth, DidAuthError, es256kSigner } from 'express-did-auth/fetch'
import type { AdmittedUser, DidAuth, DidAuthConfig } from 'express-did-auth/fetch'
import { afterTest } from '../support/fixtures/after-test.js'
import {
  challengeSecret,
  createLoginText,
  createNumberedWallet,
  serviceWallet,
  TestClock
} from '../support/fixtures/fixtures.js'
import { machineConfig } from '../support/fixtures/machines.js'
import { catchCode, refusal } from '../support/fixtures/refusal.js'

const wallet = createNumberedWallet(1)
const here = { clientAddress: '192.0.2.1' }
const unknown = { clientAddress: undefined }
const sign = es256kSigner(serviceWallet.privateKey)

/** Creates a login, and a list of what it logs. */
function create(config: Partial<DidAuthConfig> = {}) {
  const log: unknown[][] = []
  const write = (...line: unknown[]): void => void log.push(line)
  const logger = { info: write, warn: write, error: write }
  const required = { challengeSecret, serviceUrl: 'https://service.example', serviceDid: serviceWallet.did }
  const didAuth = createDidAuth({ ...required, serviceSigner: sign, clock: new TestClock(), logger, ...config })
  return { didAuth, log }
}

function createRequest(path: string, body?: object, headers: Record<string, string> = {}): Request {
  const url = `https://service.example${path}`
  if (body === undefined) return new Request(url, { headers })
  const type = { 'Content-Type': 'application/json' }
  return new Request(url, { method: 'POST', headers: { ...type, ...headers }, body: JSON.stringify(body) })
}

async function post(didAuth: DidAuth, path: string, body: object, context: Parameters<DidAuth['fetch']>[1] = here) {
  const response = await didAuth.fetch(createRequest(path, body), context)
  if (response === undefined) throw new Error(`no route at ${path}`)
  return response
}

const readCookie = (cookie: string) => ({ accessToken: cookie.slice(cookie.indexOf('=') + 1, cookie.indexOf(';')) })

async function logIn(didAuth: DidAuth, user = wallet): Promise<{ Authorization: string }> {
  const { challenge } = (await (await post(didAuth, '/request-auth', { did: user.did })).json()) as {
    challenge: string
  }
  const sig = user.personalSign(createLoginText('service.example', challenge))
  const response = await post(didAuth, '/auth', { did: user.did, sig })
  const [cookie] = response.headers.getSetCookie()
  const { accessToken } =
    cookie === undefined ? ((await response.json()) as { accessToken: string }) : readCookie(cookie)
  return { Authorization: `DIDAuth ${accessToken}` }
}

describe('createDidAuth', () => {
  it('needs no I/O, timer, clock or random number before the first request', () => {
    const forbid = (name: string) => () => {
      throw new Error(`${name} before the first request`)
    }
    const timers = ['setTimeout', 'setInterval', 'setImmediate', 'fetch'] as const
    for (const name of timers) jest.spyOn(globalThis, name as 'fetch').mockImplementation(forbid(name))
    for (const [object, name] of [
      [Date, 'now'],
      [Math, 'random'],
      [performance, 'now']
    ] as const) {
      jest.spyOn(object as DateConstructor, name as 'now').mockImplementation(forbid(name))
    }
    jest.spyOn(globalThis.crypto, 'getRandomValues').mockImplementation(forbid('getRandomValues'))
    afterTest(() => undefined)
    const store = Object.fromEntries(Object.keys(memoryStore()).map((verb) => [verb, forbid(verb)])) as unknown as Store
    const serviceSigner = forbid('serviceSigner')
    const { didAuth } = create({ store, serviceSigner, clock: { nowSeconds: forbid('nowSeconds') }, siwe: true })
    expect(didAuth.sessions).toBeDefined()
  })

  it('throws one error that lists every problem', () =>
    expect(() => create({ serviceUrl: '', challengeSecret: '' })).toThrow(refusal('ERR_CONFIG')))

  it('probes signer and store when `ready` is read, and again after a failure', async () => {
    const signer = jest.fn(sign).mockRejectedValueOnce(new Error('the signer is away'))
    const { didAuth, log } = create({ serviceSigner: signer })
    expect(signer).not.toHaveBeenCalled()
    await expect(didAuth.ready).rejects.toEqual(refusal('ERR_SIGNER'))
    await didAuth.ready
    expect(log.map(([fields]) => fields)).toEqual([expect.objectContaining({ event: 'not-ready' })])
  })

  it('probes signer and store with the first request', async () => {
    const signer = jest.fn(sign)
    const { didAuth } = create({ serviceSigner: signer })
    await didAuth.fetch(createRequest('/profile'), here)
    expect(signer).not.toHaveBeenCalled()
    await post(didAuth, '/request-auth', { did: wallet.did })
    expect(signer).toHaveBeenCalledTimes(1)
  })
})

describe('didAuth.fetch', () => {
  it.each(['/', '/profile', '/auth/x', '/authx', '//auth'])('leaves %s to the application', async (path) =>
    expect(await create().didAuth.fetch(createRequest(path, {}), here)).toBeUndefined()
  )

  it('leaves other methods of its paths to the application', async () =>
    expect(await create().didAuth.fetch(createRequest('/auth'), here)).toBeUndefined())

  it('answers HEAD like GET, without body', async () => {
    const { didAuth } = create({ siwe: true })
    const url = 'https://service.example/siwe/nonce'
    const head = await didAuth.fetch(new Request(url, { method: 'HEAD' }), here)
    expect([head?.status, head?.headers.get('content-length'), await head?.text()]).toEqual([
      200,
      expect.any(String),
      ''
    ])
  })

  it('answers below its mount path only', async () => {
    const { didAuth } = create({ discovery: true })
    const ask = async (path: string, mountPath: string) =>
      (await didAuth.fetch(createRequest(path), { ...here, mountPath }))?.status
    expect(await ask('/api/.well-known/did-auth.json', '/api')).toBe(200)
    expect(await ask('/API/.well-known/did-auth.json/', '/api/')).toBe(200)
    expect(await ask('/.well-known/did-auth.json', '/api')).toBeUndefined()
  })

  it('answers 500 to a request whose body the application has read, and logs why', async () => {
    const { didAuth, log } = create()
    const request = createRequest('/request-auth', { did: wallet.did })
    await request.text()
    expect((await didAuth.fetch(request, here))?.status).toBe(500)
    expect(JSON.stringify(log)).toContain('mount the login first, or pass new Request(url, { method, headers, body })')
  })

  it.each([undefined, null, '192.0.2.1'])('says what to pass instead of %j as its second argument', async (context) => {
    const { didAuth } = create()
    const remedy = 'pass the IP address of the client, as in didAuth.'
    const meaning = 'undefined as clientAddress means: unknown, without budgets of client networks'
    await expect(didAuth.fetch(createRequest('/auth'), context as never)).rejects.toThrow(
      new TypeError(`${remedy}fetch(request, { clientAddress }). ${meaning}`)
    )
    await expect(didAuth.authenticate(createRequest('/'), context as never)).rejects.toThrow(
      new TypeError(`${remedy}authenticate(request, { clientAddress }). ${meaning}`)
    )
  })

  it('sends the cookies of a login in several headers', async () => {
    const { didAuth } = create({ useCookies: true })
    const { challenge } = (await (await post(didAuth, '/request-auth', { did: wallet.did })).json()) as {
      challenge: string
    }
    const sig = wallet.personalSign(createLoginText('service.example', challenge))
    const cookies = (await post(didAuth, '/auth', { did: wallet.did, sig })).headers.getSetCookie()
    expect(cookies.map((cookie) => cookie.split('=')[0])).toEqual(['authorization', 'refresh-token'])
  })
})

describe('the address of a client', () => {
  const badProof = (number: number) => ({ did: `did:ethr:rsk:0x${String(number).padStart(40, '0')}`, sig: 'x' })
  const prove = async (didAuth: DidAuth, context: object, count: number): Promise<number> => {
    let status = 0
    for (let number = 0; number <= count; number += 1) {
      ;({ status } = await post(didAuth, '/auth', badProof(number), context as typeof here))
    }
    return status
  }

  it('is charged for refused proofs, with or without its port', async () => {
    const { didAuth, log } = create({ maxRequestsPerTimeSlot: 1 })
    expect(await prove(didAuth, { clientAddress: '192.0.2.1:4000' }, 100)).toBe(429)
    expect(await prove(didAuth, { clientAddress: '192.0.2.2' }, 0)).toBe(401)
    expect(log.filter(([fields]) => (fields as { event: string }).event === 'client-address-unknown')).toEqual([])
  })

  it.each([[undefined], [''], ['unknown'], ['192.0.2.1, 192.0.2.2'], [7]])(
    'has no budget if it is %p, with one warning',
    async (clientAddress) => {
      const { didAuth, log } = create({ maxRequestsPerTimeSlot: 1 })
      expect(await prove(didAuth, { clientAddress }, 100)).toBe(401)
      expect(log.filter(([fields]) => (fields as { event: string }).event === 'client-address-unknown')).toEqual([
        [
          { event: 'client-address-unknown' },
          'clientAddress is no IP address: budgets of client networks are not applied'
        ]
      ])
    }
  )

  // Cause: one stranger behind the proxy used up the nonces and logins of everybody.
  it('is not charged for nonces if it is that of a proxy, with one warning', async () => {
    const { didAuth, log } = create({ maxRequestsPerTimeSlot: 1, siwe: true })
    const ask = async (forwarded: string): Promise<number | undefined> => {
      const request = createRequest('/siwe/nonce', {})
      request.headers.set('X-Forwarded-For', forwarded)
      return (await didAuth.fetch(request, { clientAddress: '192.0.2.1' }))?.status
    }
    for (let count = 0; count < 50; count += 1) expect(await ask('198.51.100.7')).toBe(200)
    expect(await ask('198.51.100.7')).toBe(200)
    expect(log.filter(([fields]) => (fields as { event: string }).event === 'trust-proxy-off')).toHaveLength(1)
    for (let count = 0; count < 50; count += 1) expect(await ask('192.0.2.1')).toBe(200)
    expect(await ask('192.0.2.1')).toBe(429)
  })

  it('does not matter for the budget of a DID', async () => {
    const { didAuth } = create({ maxRequestsPerTimeSlot: 1 })
    const name = async (user: number) =>
      (await post(didAuth, '/request-auth', { did: createNumberedWallet(user).did }, unknown)).status
    for (let count = 0; count < 10; count += 1) expect(await name(1)).toBe(200)
    expect([await name(1), await name(2)]).toEqual([429, 200])
  })
})

describe('didAuth.authenticate', () => {
  it('returns the user, and charges a request once', async () => {
    const { didAuth } = create({ maxRequestsPerTimeSlot: 1 })
    const request = createRequest('/profile', undefined, await logIn(didAuth))
    for (let count = 0; count < 3; count += 1) {
      const { user, auth } = await didAuth.authenticate(request, here)
      expect([user, auth.canonicalDid, auth.claims.sub]).toEqual([{ did: wallet.did }, wallet.did, wallet.did])
    }
    await expect(didAuth.authenticate(new Request(request), here)).rejects.toEqual(refusal('ERR_TOO_MANY_REQUESTS'))
  })

  it('refuses an ended session with `checkSession`', async () => {
    const { didAuth } = create()
    const request = createRequest('/profile', undefined, await logIn(didAuth))
    await didAuth.sessions.revokeAll(wallet.did)
    await didAuth.authenticate(request, here)
    await expect(didAuth.authenticate(request, { ...here, checkSession: true })).rejects.toEqual(
      refusal('ERR_SESSION_ENDED')
    )
  })

  it('refuses a user for whom `allow` does not return true, and charges the request once', async () => {
    const { didAuth } = create({ maxRequestsPerTimeSlot: 1 })
    const request = createRequest('/profile', undefined, await logIn(didAuth))
    const allow = ({ user }: AdmittedUser): boolean => user.canonicalDid !== wallet.did
    await expect(didAuth.authenticate(request, { ...here, allow })).rejects.toEqual(refusal('ERR_FORBIDDEN'))
    const { user } = await didAuth.authenticate(request, { ...here, allow: async () => true })
    expect(user).toEqual({ did: wallet.did })
    const failure = new Error('of the application')
    const failing = { ...here, allow: () => Promise.reject(failure) }
    await expect(didAuth.authenticate(request, failing)).rejects.toBe(failure)
    await expect(didAuth.authenticate(request, { ...here, allow: 'admin' as never })).rejects.toEqual(
      new TypeError('allow needs a function')
    )
    const misspelt = { ...here, checkSesion: true }
    await expect(didAuth.authenticate(request, misspelt)).rejects.toEqual(
      new TypeError('unknown option checkSesion: the options are checkSession, deviceProof, optional, allow')
    )
  })

  it('returns undefined without a token if the login is optional, and refuses an invalid one', async () => {
    const { didAuth } = create()
    expect(await didAuth.authenticate(createRequest('/'), { ...here, optional: true })).toBeUndefined()
    const invalid = createRequest('/', undefined, { Authorization: 'DIDAuth x' })
    await expect(didAuth.authenticate(invalid, { ...here, optional: true })).rejects.toEqual(
      refusal('ERR_ACCESS_TOKEN')
    )
  })

  it('warns once if it asks for device proofs that no session can have', async () => {
    const { didAuth, log } = create()
    for (let count = 0; count < 2; count += 1) {
      await expect(didAuth.authenticate(createRequest('/'), { ...here, deviceProof: true })).rejects.toThrow()
    }
    expect(log).toEqual([
      [{ event: 'configuration' }, 'authenticate with deviceProof: true refuses most requests: deviceBinding is off']
    ])
  })
})

describe('a token request of a machine that the application has read', () => {
  it('is answered 500 in the form of OAuth', async () => {
    const { didAuth } = create(machineConfig)
    const body = new URLSearchParams({ grant_type: 'client_credentials' })
    const request = new Request('https://service.example/token', { method: 'POST', body })
    await request.text()
    const response = await didAuth.fetch(request, here)
    const error = { error: 'server_error', error_description: 'Invalid configuration' }
    expect([response?.status, await response?.json()]).toEqual([500, error])
  })
})

describe('two Cookie headers of one request', () => {
  /** Logs in with cookies, and sends the access token and other cookies as two headers that the runtime joined. */
  async function authenticateWith(createHeaders: (accessToken: string) => [string, string][] | { Cookie: string }) {
    const { didAuth } = create({ useCookies: true, cookiePrefix: '__Host-' })
    const accessToken = (await logIn(didAuth)).Authorization.slice('DIDAuth '.length)
    const request = new Request('https://service.example/', { headers: createHeaders(accessToken) })
    return didAuth.authenticate(request, here)
  }

  it('are read', async () => {
    const pairs = (token: string): [string, string][] => [
      ['Cookie', 'theme=dark'],
      ['Cookie', `__Host-authorization=${token}`]
    ]
    expect(await authenticateWith(pairs)).toMatchObject({ user: { did: wallet.did } })
  })

  // Cause: a sibling domain cannot set a cookie with the prefix `__Host-`, but one whose value has a comma.
  it.each([
    ['theme=dark, __Host-authorization=T', 'ERR_ACCESS_TOKEN_MISSING'],
    ['__Host-authorization=T, __Host-refresh-token=U', 'ERR_ACCESS_TOKEN'],
    ['__Host-authorization=T, __Host-authorization=T', 'ERR_ACCESS_TOKEN'],
    ['theme=a, __Host-authorization=forged; __Host-authorization=T', undefined]
  ] as const)(
    'are one cookie if a comma joins them, so that a sibling domain forges no token: %s',
    async (cookie, code) => {
      const found = authenticateWith((token) => ({ Cookie: cookie.replaceAll('T', token) }))
      expect(await catchCode(found)).toBe(code)
    }
  )
})

describe('didAuth.errorResponse', () => {
  it('answers a refusal as the routes do', async () => {
    const response = create().didAuth.errorResponse(new DidAuthError('ERR_ACCESS_TOKEN_MISSING'), createRequest('/'))
    expect([response.status, response.headers.get('www-authenticate')]).toEqual([
      401,
      'DIDAuth realm="https://service.example"'
    ])
    expect(await response.text()).toBe('Missing access token')
  })

  it('answers RFC 9457 to a client that accepts it', async () => {
    const request = createRequest('/', undefined, { Accept: 'application/problem+json' })
    const response = create().didAuth.errorResponse(new DidAuthError('ERR_DID'), request)
    expect(await response.json()).toEqual({ type: 'about:blank', title: 'Invalid DID', status: 401, code: 'ERR_DID' })
  })

  it('answers 500 without details to any other error, and logs it', async () => {
    const { didAuth, log } = create()
    const response = didAuth.errorResponse(new Error('secret'), createRequest('/'))
    expect([response.status, await response.text()]).toEqual([500, 'Internal error'])
    expect(JSON.stringify(log)).toContain('secret')
  })

  it('reports the client network of the request that `authenticate` refused', async () => {
    const events: object[] = []
    const { didAuth } = create({ maxRequestsPerTimeSlot: 1, onSecurityEvent: (event) => void events.push(event) })
    const headers = await logIn(didAuth)
    await didAuth.authenticate(createRequest('/', undefined, headers), here)
    const request = createRequest('/', undefined, headers)
    const error: unknown = await didAuth.authenticate(request, here).catch((thrown: unknown) => thrown)
    expect(didAuth.errorResponse(error, request).status).toBe(429)
    expect(events.at(-1)).toMatchObject({ type: 'too-many-requests', clientNetwork: '192.0.2.1' })
  })
})
