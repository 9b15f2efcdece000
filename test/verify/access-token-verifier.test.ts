import { beforeAll, describe, expect, it, jest } from '@jest/globals'
import { SigningKey } from 'ethers/crypto'
import { accessTokenFor, fakeClock, testConfig, wallet } from 'express-did-auth/testing'
import { es256kSigner } from 'express-did-auth'
import { accessTokenVerifier, requireToken, type AllowUser, type VerifierOptions } from 'express-did-auth/verify'
import { pureCurve } from '../../src/adapters/curve-pure.js'
import { refusal } from '../support/fixtures/refusal.js'
import express, { type Express } from 'express'
import request from 'supertest'
import { type Host, testApp } from '../support/servers/test-app.js'

const alice = wallet('alice')
const key = wallet('key of the service')
const other = wallet('another key')
const serviceUrl = 'https://auth.example'
const publicKey = SigningKey.computePublicKey(key.privateKey)
const compressed = SigningKey.computePublicKey(key.privateKey, true)

/** A token of a service with any DID and key. */
const issueToken = (issuer: string, signer = key, clock = fakeClock()): Promise<string> =>
  accessTokenFor(
    alice.did,
    {},
    { serviceUrl, serviceDid: issuer, serviceSigner: es256kSigner(signer.privateKey), clock }
  )
const createDocument = (issuer: string, method: object): object => ({
  didResolutionMetadata: {},
  didDocumentMetadata: {},
  didDocument: {
    id: issuer,
    verificationMethod: [{ id: `${issuer}#1`, controller: issuer, ...method }],
    assertionMethod: [`${issuer}#1`]
  }
})

describe('accessTokenVerifier: the keys of the issuer', () => {
  const web = 'did:web:auth.example'

  it.each([
    ['the address of a did:ethr', { issuer: key.did }],
    ['a did:ethr of a public key', { issuer: `did:ethr:rsk:${compressed}` }],
    [
      'publicKeys in hexadecimal',
      { issuer: web, publicKeys: [SigningKey.computePublicKey(other.privateKey), publicKey] }
    ],
    ['a compressed one of publicKeys', { issuer: web, publicKeys: [compressed.slice(2)] }],
    ['publicKeys in bytes', { issuer: web, publicKeys: [Buffer.from(compressed.slice(2), 'hex')] }]
  ])('are %s', async (_what, options) => {
    const verify = accessTokenVerifier({ ...options, audience: serviceUrl, clock: fakeClock() })
    for (let count = 0; count < 2; count += 1)
      expect((await verify(await issueToken(options.issuer))).did).toBe(alice.did)
    const forged = verify(await issueToken(options.issuer, wallet('mallory')))
    await expect(forged).rejects.toEqual(refusal('ERR_ACCESS_TOKEN'))
  })

  it.each([
    ['an address', { blockchainAccountId: `eip155:30:${key.address}` }],
    ['a public key', { type: 'EcdsaSecp256k1VerificationKey2019', publicKeyHex: publicKey.slice(2) }],
    ['a compressed public key', { type: 'EcdsaSecp256k1VerificationKey2019', publicKeyHex: compressed.slice(2) }]
  ])('come from its DID document: %s', async (_what, method) => {
    const resolver = { resolve: async () => createDocument(web, method) }
    const verify = accessTokenVerifier({ issuer: web, audience: serviceUrl, resolver, clock: fakeClock() })
    expect((await verify(await issueToken(web))).did).toBe(alice.did)
    await expect(verify(await issueToken(web, other))).rejects.toEqual(refusal('ERR_ACCESS_TOKEN'))
  })

  it('are accepted for each issuer while the service replaces its key', async () => {
    const verify = accessTokenVerifier({ issuer: [key.did, other.did], audience: serviceUrl, clock: fakeClock() })
    expect((await verify(await issueToken(key.did))).did).toBe(alice.did)
    expect((await verify(await issueToken(other.did, other))).did).toBe(alice.did)
    for (const token of [await issueToken(other.did, key), await issueToken(web), 'no token']) {
      await expect(verify(token)).rejects.toEqual(refusal('ERR_ACCESS_TOKEN'))
    }
    expect(() => accessTokenVerifier({ issuer: [], audience: serviceUrl })).toThrow(refusal('ERR_CONFIG'))
  })

  it('are recovered once: later tokens cost one verification, and a cached token none', async () => {
    const [recover, check] = [jest.spyOn(pureCurve, 'recover'), jest.spyOn(pureCurve, 'verify')]
    try {
      const verify = accessTokenVerifier({ issuer: key.did, audience: serviceUrl, clock: fakeClock() })
      const token = await issueToken(key.did)
      await verify(token)
      const recoveries = recover.mock.calls.length
      check.mockClear()
      await verify(await issueToken(key.did))
      await verify(token)
      await verify(await issueToken(key.did, other)).catch(() => undefined)
      expect([recover.mock.calls.length - recoveries, check.mock.calls.length]).toEqual([0, 2])
    } finally {
      jest.restoreAllMocks()
    }
  })

  it('are fetched again after 60 s, so that a replaced key is no longer valid', async () => {
    const clock = fakeClock()
    let address = key.address
    const resolve = jest.fn(async () => createDocument(key.did, { blockchainAccountId: `eip155:30:${address}` }))
    const verify = accessTokenVerifier({ issuer: key.did, audience: serviceUrl, resolver: { resolve }, clock })
    const token = await issueToken(key.did)
    await verify(token)
    address = other.address
    clock.advance(59)
    await verify(token)
    clock.advance(1)
    await expect(verify(token)).rejects.toEqual(refusal('ERR_ACCESS_TOKEN'))
    expect((await verify(await issueToken(key.did, other, clock))).did).toBe(alice.did)
    expect(resolve).toHaveBeenCalledTimes(2)
  })

  it('cause ERR_RESOLVER for 10 s if the resolver fails, and ERR_ACCESS_TOKEN if the DID has none', async () => {
    const clock = fakeClock()
    const answers = [() => Promise.reject(new Error('down')), async () => createDocument(web, {})]
    const resolve = jest.fn(async () => answers.shift()!())
    const verify = accessTokenVerifier({ issuer: web, audience: serviceUrl, resolver: { resolve }, clock })
    const token = await issueToken(web)
    await expect(verify(token)).rejects.toMatchObject({ code: 'ERR_RESOLVER', retryAfterSeconds: 10 })
    clock.advance(9)
    await expect(verify(token)).rejects.toMatchObject({ code: 'ERR_RESOLVER', retryAfterSeconds: 1 })
    clock.advance(1)
    await expect(verify(token)).rejects.toEqual(refusal('ERR_ACCESS_TOKEN'))
    expect(resolve).toHaveBeenCalledTimes(2)
  })

  it('cause ERR_RESOLVER if the resolver does not respond within 3 s', async () => {
    jest.useFakeTimers()
    try {
      const resolver = { resolve: () => new Promise(() => undefined) }
      const verify = accessTokenVerifier({ issuer: web, audience: serviceUrl, resolver, clock: fakeClock() })
      const refused = expect(verify(await issueToken(web))).rejects.toEqual(refusal('ERR_RESOLVER'))
      await jest.advanceTimersByTimeAsync(3_000)
      await refused
    } finally {
      jest.useRealTimers()
    }
  })
})

describe('accessTokenVerifier: a cached token', () => {
  it('is valid up to the second before its exp', async () => {
    const clock = fakeClock()
    const verify = accessTokenVerifier({ issuer: key.did, audience: serviceUrl, clock })
    const token = await issueToken(key.did)
    await verify(token)
    clock.advance(599)
    expect((await verify(token)).did).toBe(alice.did)
    clock.advance(1)
    await expect(verify(token)).rejects.toEqual(refusal('ERR_ACCESS_TOKEN_EXPIRED'))
  })

  it('expires by the clock of the machine by default', async () => {
    const verify = accessTokenVerifier({ issuer: testConfig().serviceDid, audience: testConfig().serviceUrl })
    expect((await verify(await accessTokenFor(alice.did))).did).toBe(alice.did)
    await expect(verify(await accessTokenFor(alice.did, { exp: 1 }))).rejects.toEqual(
      refusal('ERR_ACCESS_TOKEN_EXPIRED')
    )
  })
})

describe('the options of accessTokenVerifier', () => {
  const validOptions = { issuer: key.did, audience: serviceUrl }

  it.each([
    ['issuer', { ...validOptions, issuer: 'auth.example' }],
    ['issuer', { ...validOptions, issuer: 'did:web:auth.example' }],
    ['issuer', { ...validOptions, issuer: `did:ethr:0x02${'ff'.repeat(32)}` }],
    ['audience', { ...validOptions, audience: '' }],
    ['audience', { ...validOptions, audience: 'https://a.example/"b' }],
    ['resolver', { ...validOptions, resolver: {} as never }],
    ['resolver', { ...validOptions, resolver: null as never }],
    ['publicKeys', { ...validOptions, publicKeys: [] }],
    ['publicKeys', { ...validOptions, publicKeys: ['0x1234'] }],
    ['publicKeys', { ...validOptions, publicKeys: [new Uint8Array(33).fill(2)].map((bytes) => bytes.fill(255, 1)) }],
    ['not both', { ...validOptions, publicKeys: [publicKey], resolver: { resolve: async () => ({}) } }],
    ['cookiePrefix', { ...validOptions, cookiePrefix: 'my-' as '' }],
    ['trustedOrigins', { ...validOptions, trustedOrigins: ['https://app.example/'] }],
    ['trustedOrigins', { ...validOptions, trustedOrigins: 'https://app.example' as never }]
  ])('refuse an invalid %s: %j', (name, options) => {
    expect(() => accessTokenVerifier(options)).toThrow(refusal('ERR_CONFIG'))
    expect(() => accessTokenVerifier(options)).toThrow(name)
  })
})

const { serviceDid: issuer, serviceUrl: audience } = testConfig()
const verify = accessTokenVerifier({ issuer, audience, trustedOrigins: ['https://app.example'] })
const origin = 'http://localhost:3000'
let token: string
let expired: string

function appWith(options: Partial<VerifierOptions> = {}): Express {
  const app = express()
  app.use(requireToken(accessTokenVerifier({ issuer, audience, ...options })))
  app.all('/me', (req, res) => {
    res.json({ user: req.user, auth: req.auth })
  })
  return app
}

beforeAll(async () => {
  token = await accessTokenFor(alice.did)
  expired = await accessTokenFor(alice.did, { exp: 1 })
})

describe('verify.request', () => {
  /** The same request as Workers and as Node hand it over. */
  const both = (method: string, headers: Record<string, string>): [Request, { method: string; headers: object }] => {
    const web = new Request(`${origin}/me`, { method })
    // A Request that is made by hand drops the headers that only a browser sets; one that arrives has them.
    Object.defineProperty(web, 'headers', { value: new Map(Object.entries(headers)) })
    return [web, { method, headers }]
  }

  const cookie = { cookie: 'authorization=T' }
  const noAuthorization = { cookie: 'authorization=x' }
  const header = { authorization: 'DIDAuth T' }

  it.each<[string, string, Record<string, string>]>([
    ['DIDAuth', 'POST', header],
    ['Bearer in any letters', 'POST', { authorization: 'bearer T' }],
    ['the cookie of a GET', 'GET', { cookie: 'a=b; authorization=T; c' }],
    ['the cookie of a request of our page', 'POST', { ...cookie, origin }],
    ['the cookie of a trusted origin', 'DELETE', { ...cookie, origin: 'https://app.example' }],
    ['the cookie of the same origin', 'POST', { ...cookie, 'sec-fetch-site': 'same-origin' }],
    ['the cookie in addition to a password', 'POST', { ...cookie, authorization: 'Basic eDp5' }],
    ['the cookie of a form without referrer', 'POST', { ...cookie, origin: 'null', 'sec-fetch-site': 'same-origin' }],
    ['the cookie of no browser', 'POST', cookie],
    [
      'a header in addition to the cookie of another site',
      'POST',
      { ...header, ...noAuthorization, origin: 'https://evil.example' }
    ]
  ])('accepts %s', async (_what, method, headers) => {
    const sent = Object.entries(headers).map(([name, value]) => [name, value.replace(/T$|T(?=;)/, token)])
    for (const answer of both(method, Object.fromEntries(sent))) {
      expect((await verify.request(answer as Request)).did).toBe(alice.did)
    }
  })

  it.each<[string, string, Record<string, string>, string]>([
    ['nothing', 'GET', {}, 'ERR_ACCESS_TOKEN_MISSING'],
    [
      'another cookie',
      'GET',
      { cookie: 'xauthorization=x; __Host-authorization=y; authorization' },
      'ERR_ACCESS_TOKEN_MISSING'
    ],
    ['another scheme', 'GET', { authorization: 'Basic eDp5' }, 'ERR_ACCESS_TOKEN'],
    ['two tokens in one header', 'GET', { authorization: 'DIDAuth x, DIDAuth y' }, 'ERR_ACCESS_TOKEN'],
    ['two cookies of one name', 'GET', { cookie: 'authorization=x; authorization=y' }, 'ERR_DUPLICATE_COOKIE'],
    ['an empty cookie', 'GET', { cookie: 'authorization=' }, 'ERR_ACCESS_TOKEN'],
    ['the cookie of another site', 'POST', { ...noAuthorization, origin: 'https://evil.example' }, 'ERR_CROSS_ORIGIN'],
    [
      'that of a sandbox',
      'POST',
      { ...noAuthorization, origin: 'null', 'sec-fetch-site': 'cross-site' },
      'ERR_CROSS_ORIGIN'
    ],
    ['the cookie of a sibling', 'PUT', { ...noAuthorization, 'sec-fetch-site': 'same-site' }, 'ERR_CROSS_ORIGIN']
  ])('refuses %s', async (_what, method, headers, code) => {
    for (const answer of both(method, headers)) {
      await expect(verify.request(answer as Request)).rejects.toEqual(refusal(code as 'ERR_DID'))
    }
  })

  it('accepts a real Request', async () => {
    const headers = { Authorization: `Bearer ${token}` }
    expect((await verify.request(new Request(origin, { method: 'POST', headers }))).did).toBe(alice.did)
  })
})

describe('requireToken', () => {
  it('sets req.user and req.auth as requireDid does', async () => {
    const { app } = await testApp({ ...testConfig(), clock: undefined })
    const [theirs, ours] = await Promise.all(
      [appWith(), app].map((service) =>
        request(service).get('/me').set('Authorization', `DIDAuth ${token}`).expect(200)
      )
    )
    expect(theirs!.body).toEqual(ours!.body)
  })

  it('sends refusals like requireDid, as text and as problem details', async () => {
    const guarded: Host = {
      after: (app, requireDid) => {
        app.post('/me', requireDid)
      }
    }
    const { app } = await testApp({ ...testConfig(), useCookies: true, clock: undefined }, guarded)
    const headers = [
      {},
      { Authorization: 'DIDAuth x' },
      { Authorization: `DIDAuth ${expired}` },
      { Cookie: 'authorization=x; authorization=y' },
      { Cookie: 'authorization=x', Origin: 'https://evil.example' }
    ]
    const accepts = [
      undefined,
      '*/*',
      'application/json',
      'application/problem+json',
      'text/html, application/problem+json;q=1'
    ]
    for (const credentials of headers) {
      for (const accept of accepts) {
        const [theirs, ours] = await Promise.all(
          [appWith(), app].map((service) =>
            request(service)
              .post('/me')
              // A service in development says its reason to clients that no proxy forwards.
              .set({ ...credentials, 'X-Forwarded-For': '192.0.2.7' })
              .set(accept === undefined ? {} : { Accept: accept })
          )
        )
        const seen = ({
          status,
          text,
          headers: { date: _, 'x-powered-by': __, ...rest }
        }: request.Response): unknown => [status, text, rest]
        expect(seen(theirs!)).toEqual(seen(ours!))
      }
    }
  })

  it('responds 503 with Retry-After if the resolver is unavailable', async () => {
    const app = appWith({ resolver: { resolve: () => Promise.reject(new Error('down')) } })
    const answer = await request(app).get('/me').set('Authorization', `DIDAuth ${token}`)
    expect([answer.status, answer.text, answer.headers['retry-after']]).toEqual([
      503,
      'DID resolver unavailable, try again',
      '10'
    ])
  })

  it('restricts a route to the users for whom `allow` returns true', async () => {
    const appFor = (allow: AllowUser) => {
      const app = express().get(
        '/me',
        requireToken(accessTokenVerifier({ issuer, audience }), { allow }),
        (req, res) => {
          res.json(req.user)
        }
      )
      app.use(((error: Error, _req, res, _next) => res.status(500).end(error.message)) as express.ErrorRequestHandler)
      return request(app).get('/me').set('Authorization', `DIDAuth ${token}`)
    }
    const [, payload = ''] = token.split('.')
    const { sub } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as { sub: string }
    await appFor(({ claims, user }) => claims.sub === sub && user.did === sub).expect(200, { did: sub })
    await appFor(async ({ claims }) => claims.role === 'admin').expect(403, 'Forbidden to this user')
    await appFor(() => Promise.reject(new Error('of the application'))).expect(500, 'of the application')
    expect(() => appFor(undefined as never)).toThrow(new TypeError('allow needs a function'))
  })

  it('refuses unknown options, which would leave a check out', () => {
    expect(() => requireToken(accessTokenVerifier({ issuer, audience }), { Allow: () => false } as object)).toThrow(
      'unknown option Allow: the options are resourceMetadata, allow'
    )
    const misspelt = { issuer, audience, endedSesions: true }
    expect(() => accessTokenVerifier(misspelt)).toThrow('unknown option endedSesions: ')
  })

  it('passes the failure of a later handler to Express', async () => {
    const app = express()
    app.use(requireToken(accessTokenVerifier({ issuer, audience })), () => {
      throw new Error('of the handler')
    })
    app.use(((error: Error, _req, res, _next) => res.status(500).end(error.message)) as express.ErrorRequestHandler)
    await request(app).get('/').set('Authorization', `DIDAuth ${token}`).expect(500, 'of the handler')
  })

  it.each([undefined, {}, () => undefined])('refuses an invalid verifier at setup: %#', (verifier) => {
    expect(() => requireToken(verifier as never)).toThrow(refusal('ERR_CONFIG'))
    expect(() => requireToken(verifier as never)).toThrow('requireToken: give the result of accessTokenVerifier')
  })
})
