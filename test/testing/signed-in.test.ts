import { describe, expect, it, jest } from '@jest/globals'
import { createServer } from 'node:http'
import express from 'express'
import session from 'express-session'
import { accessTokenFor, fakeClock, signedIn, testConfig, wallet } from 'express-did-auth/testing'
import request from 'supertest'
import { serviceUrl, testApp, type Host } from '../support/servers/test-app.js'
import { es256kSigner } from 'express-did-auth'
import { ES256KSigner } from 'did-jwt'
import { serviceWallet } from '../support/fixtures/fixtures.js'

const alice = wallet('alice')
const bob = wallet('bob')
const didAt = async (fetch: (path: string) => Promise<Response>, path = '/me'): Promise<unknown> => {
  const body = (await (await fetch(path)).json()) as { user: { did: string } }
  return body.user.did
}

describe('signedIn', () => {
  it('logs a wallet in at an app that does not listen, and sends requests as its user', async () => {
    const { app } = await testApp()
    const [asAlice, asBob] = await Promise.all([signedIn(app, alice), signedIn(app, bob)])
    expect(await didAt(asAlice)).toBe(alice.did)
    expect(await didAt(asBob)).toBe(bob.did)
    expect(asAlice.url).toBe(asBob.url)
  })

  it('logs in at a listening server, and at a URL', async () => {
    const { app } = await testApp()
    const server = createServer(app).listen(0, '127.0.0.1')
    const fetch = await signedIn(server, alice)
    expect(await didAt(fetch)).toBe(alice.did)
    expect(await didAt(await signedIn(`${fetch.url}/`, bob))).toBe(bob.did)
    server.closeAllConnections()
    server.close()
  })

  it('returns the headers of its user for other clients', async () => {
    const { app } = await testApp()
    const { headers } = await signedIn(app, alice)
    const { body } = await request(app).get('/me').set(headers)
    expect(body.user).toEqual({ did: alice.did })
  })

  it('stores cookies in cookie mode', async () => {
    const { app } = await testApp({ useCookies: true, cookiePrefix: '__Host-' })
    const fetch = await signedIn(app, alice)
    expect(fetch.headers.Cookie).toMatch(/^__Host-authorization=\S+; __Host-refresh-token=\S+$/)
    expect(await didAt(fetch)).toBe(alice.did)
  })

  it('sends its token and all cookies if a middleware of the app sets its own', async () => {
    const { app } = await testApp(
      {},
      {
        before: (app) => app.use(session({ secret: 'secret', resave: false, saveUninitialized: true })),
        after: (app) => app.get('/id', (req, res) => void res.json(req.sessionID))
      }
    )
    const fetch = await signedIn(app, alice)
    expect(await didAt(fetch)).toBe(alice.did)
    expect(fetch.headers).toEqual({ Authorization: expect.stringMatching(/^DIDAuth ey/), Cookie: expect.any(String) })
    const ids = [await (await fetch('/id')).json(), await (await fetch('/id')).json()]
    expect(ids[0]).toBe(ids[1])
  })

  it('sends method, body and headers like fetch; headers of the caller win', async () => {
    const { app } = await testApp(
      {},
      {
        after: (app) =>
          app.post(
            '/echo',
            express.json(),
            (req, res) => void res.json([req.headers['x-one'], req.headers.authorization, req.body])
          )
      }
    )
    const fetch = await signedIn(app, alice)
    const headers = { 'X-One': '1', authorization: 'none', 'Content-Type': 'application/json' }
    const answer = await fetch('/echo', { method: 'POST', headers, body: '{"a":1}' })
    expect(await answer.json()).toEqual(['1', 'none', { a: 1 }])
  })

  it.each([['https://api.example:8443/auth'], ['my-service']])(
    'signs for the domain of serviceUrl %s',
    async (serviceUrl) => {
      const { app } = await testApp({ serviceUrl })
      expect(await didAt(await signedIn(app, alice))).toBe(alice.did)
    }
  )

  it('accepts the custom paths of a service', async () => {
    const { app } = await testApp({ requestAuthPath: '/ask', authPath: '/answer' }, { prefix: '/api' })
    const fetch = await signedIn(app, alice, { requestAuthPath: '/api/ask', authPath: '/api/answer' })
    expect(await didAt(fetch, '/api/me')).toBe(alice.did)
  })

  // Cause: an app under /api needed an undocumented parameter, and each test printed a warning about the kit's request.
  it.each([['/api'], ['/a-b/v1.2'], ['/api/deep']])('finds the routes below %s, without a warning', async (prefix) => {
    const outer = express.Router()
    const { app, log } = await testApp({ authPath: '/answer' }, { prefix, before: (app) => app.use(outer) })
    const fetch = await signedIn(app, alice)
    expect(await didAt(fetch, `${prefix}/me`)).toBe(alice.did)
    expect(await didAt(await signedIn(createServer(app), alice), `${prefix}/me`)).toBe(alice.did)
    expect(log).toEqual([])
  })

  it('finds a nested router, and one on a mounted application', async () => {
    const [{ app }, api] = [await testApp({}, { prefix: '/v2' }), express.Router()]
    expect(await didAt(await signedIn(express().use('/x', api.use('/api', app)), alice), '/x/api/v2/me')).toBe(
      alice.did
    )
    const mounted = express().use('/service', (await testApp()).app)
    expect(await didAt(await signedIn(mounted, alice), '/service/me')).toBe(alice.did)
  })

  it('tries the usual paths if Express hides the mount path', async () => {
    const { app } = await testApp({}, { prefix: '/api' })
    const router = (app as unknown as Record<string, unknown>)._router ?? app.router
    for (const layer of (router as { stack: { rawPath?: string }[] }).stack) delete layer.rawPath
    expect(await didAt(await signedIn(app, alice), '/api/me')).toBe(alice.did)
  })

  it('tries the usual paths if it cannot inspect the app, and uses the given one', async () => {
    const [{ app }, other] = [await testApp({}, { prefix: '/api' }), await testApp({}, { prefix: '/service' })]
    expect(await didAt(await signedIn((req, res) => app(req, res), alice), '/api/me')).toBe(alice.did)
    const { url } = await signedIn(other.app, alice)
    expect(await didAt(await signedIn(url, alice, { mountPath: '/service' }), '/service/me')).toBe(alice.did)
    await expect(signedIn(url, alice)).rejects.toThrow("such as { mountPath: '/api' }, or requestAuthPath and authPath")
  })

  it.each(['https://api.example:8443/auth', 'http://localhost:3000'])(
    'approves a request of %s',
    async (serviceUrl) => {
      const describe = ({ body }: express.Request) => `Send ${String(body.amount)}`
      const handle = (req: express.Request, res: express.Response) => void res.json(req.auth?.approval?.message)
      const after: Host['after'] = (app, requireDid) => app.post('/transfer', requireDid.approved(describe), handle)
      const fetch = await signedIn((await testApp({ serviceUrl, siwe: true }, { after })).app, alice)
      const init = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"amount":5}' }
      expect((await fetch('/transfer', init)).status).toBe(403)
      const answer = await fetch('/transfer', { ...init, approve: true })
      expect(await answer.json()).toContain('Approve: Send 5 (POST /transfer)')
      expect((await fetch('/nowhere', { approve: true })).status).toBe(404)
    }
  )

  it('reports the refusal', async () => {
    const { app } = await testApp({ authenticationBusinessLogic: () => Promise.reject(new Error('Not on the list')) })
    await expect(signedIn(app, alice)).rejects.toThrow('The login was refused: 401 Not on the list')
    await expect(signedIn(express(), alice)).rejects.toThrow('answered 404 instead of a 401 of express-did-auth')
    await expect(signedIn(app, alice.rejecting())).rejects.toThrow('User rejected')
  })

  it('is logged out after the clock of the app moved on', async () => {
    const clock = fakeClock()
    const { app } = await testApp({ clock })
    const fetch = await signedIn(app, alice)
    clock.advance(599)
    expect((await fetch('/me')).status).toBe(200)
    clock.advance(1)
    expect(await (await fetch('/me')).text()).toBe('Expired access token')
  })
})

const createHeader = (authorization: string): { Authorization: string } => ({
  Authorization: `DIDAuth ${authorization}`
})

describe('fakeClock', () =>
  it('stands still until it is moved, in either direction', () => {
    const clock = fakeClock(1000)
    clock.advance(60)
    clock.advance(-10)
    expect(clock.nowSeconds()).toBe(1050)
    expect(fakeClock().nowSeconds() % 300).toBe(0)
  }))

describe('testConfig', () =>
  it('has the same key in every run, allows unlimited requests, and logs only failures', async () => {
    const [warn, error] = [jest.spyOn(console, 'warn'), jest.spyOn(console, 'error').mockReturnValue(undefined)]
    const { warn: onWarning, error: onError } = testConfig().logger
    for (const write of [onWarning, onError]) write({}, 'text')
    expect([warn.mock.calls.length, error.mock.calls.length]).toEqual([0, 1])
    jest.restoreAllMocks()
    expect(testConfig().serviceDid).toBe(testConfig().serviceDid)
    const { app } = await testApp({ ...testConfig() })
    const token = await accessTokenFor(alice.did, {}, { ...testConfig(), clock: fakeClock() })
    for (let count = 0; count < 25; count += 1) await request(app).get('/me').set(createHeader(token)).expect(200)
  }))

describe('accessTokenFor', () => {
  it('signs a token that requireDid accepts in an app with testConfig', async () => {
    const { app } = await testApp({ ...testConfig(), clock: undefined })
    const token = await accessTokenFor(alice.did, { role: 'admin' })
    const { body } = await request(app).get('/me').set(createHeader(token)).expect(200)
    expect(body.user).toEqual({ did: alice.did })
    expect(body.auth).toMatchObject({ sessionId: expect.stringMatching(/^[\w-]{24}$/), claims: { role: 'admin' } })
  })

  it.each([
    ['a key of es256kSigner', es256kSigner(serviceWallet.privateKey)],
    ['a signer of did-jwt', ES256KSigner(Buffer.from(serviceWallet.privateKey.slice(2), 'hex'))]
  ])('signs for any service, by %s and its clock', async (_what, serviceSigner) => {
    const { app, clock } = await testApp({ accessTokenExpirationTimeInSeconds: 60 })
    const service = { serviceUrl, serviceDid: serviceWallet.did, serviceSigner, clock }
    const token = await accessTokenFor(alice.did, {}, { ...service, accessTokenExpirationTimeInSeconds: 60 })
    await request(app).get('/me').set(createHeader(token)).expect(200)
    clock.seconds += 60
    await request(app).get('/me').set(createHeader(token)).expect(401, 'Expired access token')
  })

  it.each([
    [{ exp: 0 }, 'Expired access token'],
    [{ aud: 'https://other.example' }, 'Invalid access token'],
    [{ use: 'refresh' }, 'Invalid access token']
  ])('sets %j in the token', async (claims, text) => {
    const { app } = await testApp({ ...testConfig(), clock: undefined })
    const token = await accessTokenFor(alice.did, claims)
    await request(app).get('/me').set(createHeader(token)).expect(401, text)
  })

  it('reports a signer that returned no signature', async () => {
    const service = { ...testConfig(), serviceSigner: async () => 'none' }
    await expect(accessTokenFor(alice.did, {}, service)).rejects.toThrow('serviceSigner returned no ES256K signature')
  })
})
