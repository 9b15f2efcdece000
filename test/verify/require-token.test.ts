import { beforeAll, describe, expect, it } from '@jest/globals'
import express, { type Express } from 'express'
import { accessTokenFor, testConfig, wallet } from 'express-did-auth/testing'
import { accessTokenVerifier, requireToken, type VerifierOptions } from 'express-did-auth/verify'
import request from 'supertest'
import { refusal } from '../support/refusal.js'
import { testApp, type Host } from '../support/test-app.js'

const { serviceDid: issuer, serviceUrl: audience } = testConfig()
const alice = wallet('alice')
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

  it.each([
    ['DIDAuth', 'POST', () => ({ authorization: `DIDAuth ${token}` })],
    ['Bearer in any letters', 'POST', () => ({ authorization: `bearer ${token}` })],
    ['the cookie of a GET', 'GET', () => ({ cookie: `a=b; authorization=${token}; c` })],
    ['the cookie of a request of our page', 'POST', () => ({ cookie: `authorization=${token}`, origin })],
    [
      'the cookie of a trusted origin',
      'DELETE',
      () => ({ cookie: `authorization=${token}`, origin: 'https://app.example' })
    ],
    [
      'the cookie of the same origin',
      'POST',
      () => ({ cookie: `authorization=${token}`, 'sec-fetch-site': 'same-origin' })
    ],
    ['the cookie of no browser', 'POST', () => ({ cookie: `authorization=${token}` })],
    [
      'a header beside the cookie of another site',
      'POST',
      () => ({ authorization: `DIDAuth ${token}`, cookie: 'authorization=x', origin: 'https://evil.example' })
    ]
  ])('accepts %s', async (_what, method, headers) => {
    for (const one of both(method, headers())) expect((await verify.request(one as Request)).did).toBe(alice.did)
  })

  it.each([
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
    [
      'the cookie of another site',
      'POST',
      { cookie: 'authorization=x', origin: 'https://evil.example' },
      'ERR_CROSS_ORIGIN'
    ],
    [
      'the cookie of a sandbox',
      'POST',
      { cookie: 'authorization=x', origin: 'null', 'sec-fetch-site': 'same-origin' },
      'ERR_CROSS_ORIGIN'
    ],
    ['the cookie of a sibling', 'PUT', { cookie: 'authorization=x', 'sec-fetch-site': 'same-site' }, 'ERR_CROSS_ORIGIN']
  ])('refuses %s', async (_what, method, headers, code) => {
    for (const one of both(method, headers)) {
      await expect(verify.request(one as Request)).rejects.toEqual(refusal(code as 'ERR_DID'))
    }
  })

  it('reads a real Request', async () => {
    const headers = { Authorization: `Bearer ${token}` }
    expect((await verify.request(new Request(origin, { method: 'POST', headers }))).did).toBe(alice.did)
  })
})

describe('requireToken', () => {
  it('sets req.user and req.auth as requireDid does', async () => {
    const { app } = await testApp({ ...testConfig(), clock: undefined })
    const [theirs, ours] = await Promise.all(
      [appWith(), app].map((one) => request(one).get('/me').set('Authorization', `DIDAuth ${token}`).expect(200))
    )
    expect(theirs!.body).toEqual(ours!.body)
  })

  it('answers refusals as requireDid does, as text and as problem details', async () => {
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
          [appWith(), app].map((one) =>
            request(one)
              .post('/me')
              .set({ ...credentials, ...(accept !== undefined && { Accept: accept }) })
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

  it('answers 503 with Retry-After where the resolver is unavailable', async () => {
    const app = appWith({ resolver: { resolve: () => Promise.reject(new Error('down')) } })
    const answer = await request(app).get('/me').set('Authorization', `DIDAuth ${token}`)
    expect([answer.status, answer.text, answer.headers['retry-after']]).toEqual([
      503,
      'DID resolver unavailable, try again',
      '10'
    ])
  })

  it('hands the failure of a handler behind it to Express', async () => {
    const app = express()
    app.use(requireToken(accessTokenVerifier({ issuer, audience })), () => {
      throw new Error('of the handler')
    })
    app.use(((error: Error, _req, res, _next) => res.status(500).end(error.message)) as express.ErrorRequestHandler)
    await request(app).get('/').set('Authorization', `DIDAuth ${token}`).expect(500, 'of the handler')
  })

  it.each([undefined, {}, () => undefined])('refuses at setup what is no verifier: %#', (verifier) => {
    expect(() => requireToken(verifier as never)).toThrow(refusal('ERR_CONFIG'))
    expect(() => requireToken(verifier as never)).toThrow('requireToken needs what accessTokenVerifier returned')
  })
})
