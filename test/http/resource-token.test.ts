import { describe, expect, it } from '@jest/globals'
import { decodeJwt, decodeProtectedHeader } from 'jose'
import { startIssuer, type TestIssuer } from '../support/servers/resource-tokens.js'
import { breakableStore, resourceKey, testApp } from '../support/servers/test-app.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const { did } = createNumberedWallet(1)
const ORDERS = 'https://orders.example'
const asProblem = { Accept: 'application/problem+json' }

/** Creates a service that accepts tokens of an issuer. */
const createOrdersApp = (issuer: TestIssuer, config = {}) =>
  testApp({ serviceUrl: ORDERS, loginDomains: ['service.example'], resourceIssuer: { issuer: issuer.url }, ...config })

describe('POST /resource-token', () => {
  it('returns a token of RFC 9068 for 300 s, signed by the first of the published keys', async () => {
    const issuer = await startIssuer({ resourceKeys: [resourceKey(1), { ...resourceKey(2), use: 'enc' } as object] })
    const { accessToken } = await issuer.logIn()
    const { body, headers } = await issuer.post('/resource-token', { resource: ORDERS }, accessToken).expect(200)
    expect(body).toEqual({ accessToken: expect.any(String), expiresIn: 300 })
    expect(headers['cache-control']).toBe('no-store')
    const published = [1, 2].map((number) => {
      const { d: _d, ...key } = resourceKey(number)
      return { ...key, alg: 'ES256', use: 'sig', kid: expect.stringMatching(/^[\w-]{43}$/) }
    })
    const answer = await issuer.get('/.well-known/jwks.json').expect(200)
    expect(answer.body).toEqual({ keys: published })
    expect(answer.headers).toMatchObject({ 'cache-control': 'public, max-age=300', 'access-control-allow-origin': '*' })
    const [{ kid }] = (answer.body as { keys: [{ kid: string }] }).keys
    expect(decodeProtectedHeader(body.accessToken)).toEqual({ alg: 'ES256', typ: 'at+jwt', kid })
    expect(decodeJwt(body.accessToken)).toEqual({
      iss: issuer.url,
      aud: ORDERS,
      sub: did,
      client_id: issuer.url,
      iat: 1_800_000_000,
      exp: 1_800_000_300,
      jti: expect.stringMatching(/^[\w-]{22}$/),
      sid: decodeJwt(accessToken).sid
    })
  })

  it('repeats claims of business logic, which override nothing', async () => {
    const tokenClaims = { role: 'buyer', aud: 'https://other.example', client_id: 'another', exp: 1 }
    const issuer = await startIssuer({ authenticationBusinessLogic: () => ({ tokenClaims }) })
    expect(decodeJwt(await issuer.tokenFor(ORDERS))).toMatchObject({
      role: 'buyer',
      aud: ORDERS,
      client_id: issuer.url,
      exp: 1_800_000_300
    })
  })

  it.each([['https://orders.example/'], ['HTTPS://Orders.example:443'], [undefined]])(
    'issues the configured text for %j, the same URL or the only one',
    async (resource) => {
      const issuer = await startIssuer({ resources: [ORDERS] })
      const { accessToken } = await issuer.logIn()
      const { body } = await issuer.post('/resource-token', { resource }, accessToken).expect(200)
      expect(decodeJwt(body.accessToken).aud).toBe(ORDERS)
    }
  )

  it.each([['https://orders.example/x'], ['https://unknown.example'], [undefined], [null], [5], [[ORDERS]]])(
    'responds 400 Unknown resource to %j, which names none of several',
    async (resource) => {
      const issuer = await startIssuer({ resources: [ORDERS, 'https://second.example'] })
      const { accessToken } = await issuer.logIn()
      const { body } = await issuer.post('/resource-token', { resource }, accessToken).set(asProblem).expect(400)
      expect(body).toMatchObject({ title: 'Unknown resource', code: 'ERR_RESOURCE' })
    }
  )

  it('responds 401 for a logged-out session, whose access token is still valid elsewhere', async () => {
    const issuer = await startIssuer()
    const { accessToken } = await issuer.logIn()
    await issuer.logOut(accessToken).expect(200)
    await issuer.me(accessToken).expect(200)
    await issuer.post('/resource-token', { resource: ORDERS }, accessToken).expect(401, 'Session ended')
  })

  it('counts against the quota of the user, and responds 503 without the store', async () => {
    const { store, state } = breakableStore('findSession')
    const issuer = await startIssuer({ maxRequestsPerTimeSlot: 1, store })
    const { accessToken } = await issuer.logIn()
    const ask = () => issuer.post('/resource-token', { resource: ORDERS }, accessToken)
    state.isBroken = true
    await ask().expect(503, 'Store unavailable, try again')
    state.isBroken = false
    await ask().expect(200)
    await ask().expect(429)
  })

  it("accepts the cookie of the user only for requests of this service's pages", async () => {
    const issuer = await startIssuer({ useCookies: true })
    const Cookie = await issuer.logInForCookies()
    const ask = (headers: Record<string, string>) =>
      issuer.post('/resource-token', { resource: ORDERS }, { Cookie, ...headers })
    await ask({ Origin: issuer.url }).expect(200)
    await ask({ Origin: 'https://evil.example' }).expect(403)
  })

  it('answers the preflight request of every page at public documents, also errors', async () => {
    const issuer = await startIssuer({ endedSessions: true })
    const Origin = 'https://page.example'
    for (const name of ['jwks.json', 'did-auth.json', 'ended-sessions', 'oauth-authorization-server']) {
      const { status, headers } = await issuer.options(`/.well-known/${name}`, { Origin })
      expect([name, status, headers['access-control-allow-origin'], headers['content-length']]).toEqual([
        name,
        204,
        '*',
        undefined
      ])
      expect((await issuer.get(`/.well-known/${name}`, { Origin })).headers['access-control-allow-origin']).toBe('*')
    }
    const refused = await issuer.get('/.well-known/ended-sessions?after=x', { Origin }).expect(400)
    expect(refused.headers['access-control-allow-origin']).toBe('*')
    await issuer.options('/resource-token', { Origin }).expect(404)
  })

  it('does not exist without configured resources, nor do the keys', async () => {
    const test = await testApp()
    const { accessToken } = await test.logIn()
    await test.post('/resource-token', { resource: ORDERS }, accessToken).expect(404)
    for (const file of ['jwks.json', 'did-auth.json']) await test.get(`/.well-known/${file}`).expect(404)
  })
})

describe('GET /.well-known/did-auth.json', () => {
  it("returns the URLs of this package's routes and keys, also when mounted below a path", async () => {
    const config = { resources: [ORDERS], resourceKeys: [resourceKey(1)], siwe: true, networks: ['rsk', ''] } as const
    const test = await testApp({ ...config, resourceTokenPath: '/for' }, { prefix: '/api' })
    const { body } = await test.get('/api/.well-known/did-auth.json').expect(200)
    expect(body).toEqual({
      version: 1,
      serviceUrl: 'https://service.example',
      serviceDid: createNumberedWallet(7777).did,
      network: 'rsk',
      networks: ['rsk', ''],
      loginDomains: ['service.example', 'https://service.example'],
      paths: {
        requestSignup: '/request-signup',
        signup: '/signup',
        requestAuth: '/request-auth',
        auth: '/auth',
        logout: '/logout',
        refreshToken: '/refresh-token',
        siweNonce: '/siwe/nonce',
        siweVerify: '/siwe/verify',
        siweLogout: '/siwe/logout',
        resourceToken: '/for',
        jwks: '/.well-known/jwks.json',
        discovery: '/.well-known/did-auth.json'
      },
      siwe: { network: 'rsk', nonceSeconds: 300 },
      jwks_uri: 'https://service.example/api/.well-known/jwks.json',
      resources: [ORDERS]
    })
    await test.get('/api/.well-known/jwks.json').expect(200)
    expect(JSON.stringify(body)).not.toContain(resourceKey(1).d)
  })

  it("exists with only discovery: true, and keeps the application's own CORS response", async () => {
    const before = (app: { use: (handler: (...args: never[]) => void) => unknown }): unknown =>
      app.use((_req: never, res: { setHeader: (n: string, v: string) => void }, next: () => void) => {
        res.setHeader('Access-Control-Allow-Origin', 'https://page.example')
        next()
      })
    const test = await testApp({ discovery: true }, { before: (app) => void before(app as never) })
    const { body, headers } = await test.get('/.well-known/did-auth.json').expect(200)
    expect(body).toMatchObject({ version: 1, resources: [] })
    expect(body).not.toHaveProperty('jwks_uri')
    expect(headers['access-control-allow-origin']).toBe('https://page.example')
  })
})

describe('requireDid with resourceIssuer', () => {
  it('accepts a token of the issuer after Bearer until its exp, and fills req.user and req.auth', async () => {
    const issuer = await startIssuer()
    const orders = await createOrdersApp(issuer)
    const { accessToken } = await issuer.logIn()
    const token = await issuer.tokenFor(ORDERS, accessToken)
    const me = () => orders.me({ Authorization: `Bearer ${token}` })
    const { body } = await me().expect(200)
    const claims = decodeJwt(token)
    expect(body).toEqual({
      user: { did },
      auth: { canonicalDid: did, address: did.slice(13), sessionId: claims.sid, claims: { ...claims, nbf: claims.iat } }
    })
    orders.clock.seconds += 299
    await me().expect(200)
    orders.clock.seconds += 1
    await me().expect(401, 'Expired access token')
  })

  it('still accepts its own tokens, and refuses each type of token in place of the other', async () => {
    const issuer = await startIssuer()
    const orders = await createOrdersApp(issuer)
    const [ownToken, foreign] = [await orders.logIn(), await issuer.tokenFor(ORDERS)]
    await orders.me(ownToken.accessToken).expect(200)
    await orders.me(foreign).expect(401, 'Invalid access token')
    await orders.me({ Authorization: `Bearer ${ownToken.accessToken}` }).expect(401, 'Invalid access token')
  })

  it('is off at the issuer itself: a token for another service is no login there', async () => {
    const issuer = await startIssuer()
    const token = await issuer.tokenFor(ORDERS)
    for (const scheme of ['Bearer', 'DIDAuth']) await issuer.me({ Authorization: `${scheme} ${token}` }).expect(401)
  })

  it('accepts the audience of the option', async () => {
    const issuer = await startIssuer()
    const orders = await testApp({ resourceIssuer: { issuer: issuer.url, audience: ORDERS } })
    await orders.me({ Authorization: `Bearer ${await issuer.tokenFor(ORDERS)}` }).expect(200)
  })

  it('refuses a user of a network that this service does not accept', async () => {
    const issuer = await startIssuer()
    const orders = await createOrdersApp(issuer, { networks: [''] })
    await orders.me({ Authorization: `Bearer ${await issuer.tokenFor(ORDERS)}` }).expect(401, 'Unsupported DID')
  })

  it('refuses the token behind checkSession, and for a request of another resource token', async () => {
    const issuer = await startIssuer()
    const ownToken = {
      resources: ['https://third.example'],
      resourceKeys: [resourceKey(3)],
      resourceIssuer: { issuer: issuer.url }
    }
    const orders = await testApp(
      { serviceUrl: ORDERS, ...ownToken },
      { after: (app, requireDid) => app.get('/pay', requireDid.with({ checkSession: true }), (_req, res) => res.end()) }
    )
    const as = { Authorization: `Bearer ${await issuer.tokenFor(ORDERS)}` }
    await orders.get('/pay', as).expect(401, 'Invalid access token')
    await orders.post('/resource-token', { resource: 'https://third.example' }, as).expect(401, 'Invalid access token')
    await orders.me(as).expect(200)
  })

  it('refuses every Bearer that is no good token, also with optional', async () => {
    const orders = await testApp(
      { serviceUrl: ORDERS, resourceIssuer: { issuer: (await startIssuer()).url } },
      { after: (app, { optional }) => app.get('/open', optional, (_req, res) => res.send('open')) }
    )
    for (const Authorization of ['Bearer a.b.c', 'Bearer', 'Bearer a b', 'DIDAuth']) {
      await orders.get('/open', { Authorization }).expect(401, 'Invalid access token')
    }
    await orders.get('/open', { Authorization: 'Basic eDp5' }).expect(200, 'open')
  })

  it('charges the same quota as tokens of this service', async () => {
    const issuer = await startIssuer()
    const orders = await createOrdersApp(issuer, { maxRequestsPerTimeSlot: 2 })
    const { accessToken } = await orders.logIn()
    const foreign = { Authorization: `Bearer ${await issuer.tokenFor(ORDERS)}` }
    await orders.me(accessToken).expect(200)
    await orders.me(foreign).expect(200)
    for (const as of [accessToken, foreign]) await orders.me(as).expect(429)
  })

  it('needs no same-site check in cookie mode: no foreign page can send the header', async () => {
    const issuer = await startIssuer()
    const orders = await createOrdersApp(issuer, { useCookies: true })
    const Authorization = `Bearer ${await issuer.tokenFor(ORDERS)}`
    // Cookies of another port on the same host.
    await orders.me({ Authorization, Cookie: 'authorization=another', Origin: 'https://page.example' }).expect(200)
  })
})
