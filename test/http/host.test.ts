import { describe, expect, it } from '@jest/globals'
import cookieParser from 'cookie-parser'
import express, { type ErrorRequestHandler, type Express } from 'express'
import session from 'express-session'
import helmet from 'helmet'
import request from 'supertest'
import { requestLoginChallenge, setCookies } from '../support/servers/app-client.js'
import { testApp } from '../support/servers/test-app.js'
import { createForm, createMachine, machineConfig, ORDERS } from '../support/fixtures/machines.js'
import { createThrowing } from '../support/fixtures/refusal.js'
import { type Route, createRouteFinder } from '../../src/http/routes.js'
import { createLoginText, createNumberedWallet } from '../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const { did } = wallet

const parsers: [string, (app: Express) => void][] = [
  ['no parser', () => undefined],
  ['express.json()', (app) => app.use(express.json())],
  ['express.urlencoded()', (app) => app.use(express.urlencoded({ extended: true }))],
  [
    'express.json() and express.urlencoded()',
    (app) => app.use(express.json(), express.urlencoded({ extended: false }))
  ],
  ['express.text()', (app) => app.use(express.text())],
  ['express.raw()', (app) => app.use(express.raw())],
  ['express.text() for every type', (app) => app.use(express.text({ type: () => true }))],
  ['express.raw() for every type', (app) => app.use(express.raw({ type: () => true }))],
  ['cookie-parser with a secret', (app) => app.use(cookieParser('secret of the host'))]
]

/** The host's own error handler, after everything else. */
const hostSays: ErrorRequestHandler = (error: Error, _req, res, _next) => {
  res.status(418).send(`the host says: ${error.message}`)
}

describe("an application with this package's routes", () => {
  it.each(parsers)(
    'logs a user in, and responds 400 to invalid JSON, after these middlewares: %s',
    async (_name, before) => {
      const { app, logIn, me } = await testApp({}, { before })
      await me((await logIn()).accessToken).expect(200)
      const { headers } = await request(app).post('/auth').type('json').send('{"did":').expect(400, 'Malformed JSON')
      expect(headers['content-type']).toBe('text/plain; charset=utf-8')
    }
  )

  it.each(parsers)('logs a user in before these middlewares: %s', async (_name, after) => {
    await (await testApp({}, { after })).logIn()
  })

  it('refuses a form that the host has parsed, which any other site could send', async () => {
    const before = (app: Express) => app.use(express.urlencoded({ extended: true }))
    const { app, post, createSignedLogin } = await testApp({}, { before })
    const login = await createSignedLogin()
    await request(app).post('/auth').type('form').send(login).expect(401, 'Invalid DID')
    await post('/auth', login).expect(200)
  })

  it('keeps the bodies of its own routes, and leaves them unread without a parser', async () => {
    const { app } = await testApp(
      {},
      {
        after: (host) => {
          host.post('/bytes', (req, res) => {
            let text = ''
            req.on('data', (chunk: Buffer) => (text += chunk.toString()))
            req.on('end', () => res.json({ body: typeof req.body, text }))
          })
          host.use(express.json(), express.urlencoded({ extended: false }), express.text(), express.raw())
          host.post('/echo', (req, res) => {
            res.json({ isBuffer: Buffer.isBuffer(req.body), body: JSON.stringify(req.body) })
          })
        }
      }
    )
    await request(app).post('/bytes').send({ a: 1 }).expect(200, { body: 'undefined', text: '{"a":1}' })
    const echo = async (type: string, body: string): Promise<unknown> =>
      (await request(app).post('/echo').type(type).send(body).expect(200)).body
    expect(await echo('application/json', '{"a":1}')).toEqual({ isBuffer: false, body: '{"a":1}' })
    expect(await echo('application/x-www-form-urlencoded', 'a=1')).toEqual({ isBuffer: false, body: '{"a":"1"}' })
    expect(await echo('text/plain', 'a')).toEqual({ isBuffer: false, body: '"a"' })
    expect(await echo('application/octet-stream', 'a')).toMatchObject({ isBuffer: true })
  })

  it.each(['before', 'after'] as const)(
    'keeps req.cookies and req.signedCookies of a parser %s its routes, and sets none itself',
    async (place) => {
      const addRoute = (path: string) => (app: Express) =>
        app.get(path, (req, res) => {
          res.json({ cookies: req.cookies, signedCookies: req.signedCookies })
        })
      const { app, get, logInForCookies } = await testApp(
        { useCookies: true },
        {
          [place]: (host: Express) => host.use(cookieParser('secret of the host')),
          ...(place === 'before' && { after: addRoute('/cookies') })
        }
      )
      if (place === 'after') addRoute('/cookies')(app)
      const forged = 's:jane.KFR9GaE5+FqeDX2XA5VDv1nx2cE7zCMlrcKgMK8mO74'
      const answer = await get('/cookies', { Cookie: `plain=1; json=j:{"a":1}; forged=${forged}` }).expect(200)
      expect(answer.body).toEqual({ cookies: { plain: '1', json: { a: 1 } }, signedCookies: { forged: false } })
      const bare = await testApp(
        { useCookies: true },
        { after: (host, requireDid) => void addRoute('/plain')(host.use('/plain', requireDid)) }
      )
      await bare.get('/plain', { Cookie: await bare.logInForCookies() }).expect(200, {})
      expect(await logInForCookies()).toContain('authorization=')
    }
  )

  it("leaves errors of the host's own routes, and requests to other routes, to the host", async () => {
    const fail = createThrowing(new Error('of the host'))
    const { get, post, logIn } = await testApp(
      {},
      {
        before: (host) => host.get('/before', fail),
        after: (host, requireDid) => {
          host.get('/after', fail)
          host.get('/guarded', requireDid, fail)
          host.use((_req, res) => void res.status(404).json({ host: 'nothing here' }))
          host.use(hostSays)
        }
      }
    )
    const { accessToken } = await logIn()
    for (const path of ['/before', '/after', '/guarded']) {
      await get(path, accessToken).expect(418, 'the host says: of the host')
    }
    for (const path of ['/', '/auth', '/request-auth/a/b']) await get(path).expect(404, { host: 'nothing here' })
    await post('/request-auth/did:web:a').expect(404, { host: 'nothing here' })
  })

  it("sends its own refusals, and never calls the host's error handler for them", async () => {
    const { get, post, me } = await testApp({}, { after: (host) => host.use(hostSays) })
    await me().expect(401, 'Missing access token')
    await post('/auth', {}).expect(401, 'Invalid DID')
    await get('/request-auth/%E0%A4%A').expect(401, 'Invalid DID')
  })

  it("uses the host's error handler if the host's own logger throws", async () => {
    const fail = createThrowing(new Error('the disk of the log is full'))
    const logger = { info: () => undefined, warn: () => undefined, error: fail }
    const authenticationBusinessLogic = () => ({ tokenClaims: 'no object' })
    const { post, createSignedLogin } = await testApp(
      { logger, authenticationBusinessLogic },
      { after: (host) => host.use(hostSays) }
    )
    await post('/auth', await createSignedLogin()).expect(418, 'the host says: the disk of the log is full')
  })

  it('serves all routes under the prefix of a router, which its sdr contains, and none outside', async () => {
    const { get, post } = await testApp({ requiredCredentials: ['Email'] }, { prefix: '/api/v1' })
    const { challenge } = (await get(`/api/v1/request-auth/${did}`).expect(200)).body
    const login = { did, sig: wallet.personalSign(createLoginText('service.example', challenge)) }
    const { accessToken, refreshToken } = (await post('/api/v1/auth', login).expect(200)).body
    await get('/api/v1/me', accessToken).expect(200)
    await post('/api/v1/refresh-token', { refreshToken }).expect(200)
    await post('/api/v1/logout', undefined, accessToken).expect(200)
    await get(`/request-auth/${did}`).expect(404)
    await post('/auth', login).expect(404)
    const { sdr } = (await post('/api/v1/request-signup', { did }).expect(200)).body
    const payload = JSON.parse(Buffer.from(sdr.split('.')[1], 'base64url').toString())
    expect(payload.replyUrl).toBe('https://service.example/api/v1/signup')
  })

  it.each([[false], [true]])('works behind express-session and helmet, with useCookies: %j', async (useCookies) => {
    const before = (host: Express) =>
      host.use(helmet(), session({ secret: 'secret of the host', resave: true, saveUninitialized: true }))
    const { post, me, createSignedLogin } = await testApp({ useCookies }, { before })
    const response = await post('/auth', await createSignedLogin()).expect(200)
    expect(setCookies(response).map((cookie) => cookie.split('=')[0])).toEqual(
      useCookies ? ['authorization', 'refresh-token', 'connect.sid'] : ['connect.sid']
    )
    expect(response.headers['x-frame-options']).toBe('SAMEORIGIN')
    expect(setCookies(await me().expect(401, 'Missing access token'))).toHaveLength(1)
  })

  it('keeps the users of two configurations on one application separate', async () => {
    const { app, logIn, post } = await testApp()
    const paths = { requestAuthPath: '/second/request-auth', authPath: '/second/auth' }
    const second = await testApp({ serviceUrl: 'https://second.example', ...paths })
    app.use(second.app)
    const { accessToken } = await logIn()
    const { challenge } = (await post('/second/request-auth', { did }).expect(200)).body
    const sig = wallet.personalSign(createLoginText('second.example', challenge))
    await post('/second/auth', { did, sig }).expect(200)
    await second.me(accessToken).expect(401)
  })
})

describe('the paths', () => {
  it('serve every configured route, and nothing at the default', async () => {
    const { get, post } = await testApp({
      requestSignupPath: '/a/Request-Signup',
      signupPath: '/a/signup',
      requestAuthPath: '/b/challenge/',
      authPath: '/b/login',
      logoutPath: '/c',
      refreshTokenPath: '/d/e/f'
    })
    for (const path of ['/a/Request-Signup', '/b/challenge/', '/b/challenge']) {
      await post(path, { did }).expect(200)
      await get(`${path.replace(/\/$/, '')}/${did}`).expect(200)
    }
    for (const path of ['/a/signup', '/b/login', '/c', '/d/e/f']) await post(path).expect(401)
    for (const path of ['/request-signup', '/signup', '/request-auth', '/auth', '/logout', '/refresh-token']) {
      await post(path).expect(404)
    }
  })

  it.each(['case sensitive routing', 'strict routing'])(
    "leave paths to the host's own route that differ by %s",
    async (setting) => {
      const { post } = await testApp(
        {},
        {
          before: (app) => app.enable(setting),
          after: (app) => app.post(['/Auth', '/auth/'], (_req, res) => void res.send('of the host'))
        }
      )
      await post(setting === 'strict routing' ? '/auth/' : '/Auth', {}).expect(200, 'of the host')
      await post('/auth', {}).expect(401, 'Invalid DID')
    }
  )

  it('respond to HEAD of a challenge with headers only, and leave OPTIONS to the application', async () => {
    const { app, get } = await testApp()
    const head = await request(app).head(`/request-auth/${did}`).expect(200)
    expect(head.headers).toMatchObject({ 'challenge-expires-in': '300', 'cache-control': 'no-store' })
    expect(head.text).toBeUndefined()
    app.options('/auth', (_req, res) => res.set('Allow', 'POST').sendStatus(204))
    expect((await request(app).options('/auth').expect(204)).headers.allow).toBe('POST')
    const challenge = await requestLoginChallenge(app, did)
    await get(`/request-auth/${encodeURIComponent(did)}`).expect(200, { challenge })
  })
})

const route = (method: Route['method'], path: string, hasParameter?: true): Route => ({
  method,
  path,
  answer: () => Promise.resolve({ status: 200, headers: {} }),
  ...(hasParameter && { hasParameter })
})
const login = route('POST', '/auth')
const challenge = route('GET', '/request-auth', true)
const asked = route('POST', '/Challenge/')
const sessions = route('GET', '/sessions')
const oneSession = route('DELETE', '/sessions', true)
const find = createRouteFinder([login, challenge, asked, sessions, oneSession])

/** Returns the route of a request such as `POST /auth`, and its parameter, in an application with some settings. */
function findRoute(request: string, settings: readonly string[] = []) {
  const [method = '', path = ''] = request.split(' ')
  const match = find({ method, path }, (rule) => settings.includes(rule))
  return [match?.route.answer, match?.parameter]
}

describe('createRouteFinder', () => {
  it.each<[string, Route, string?]>([
    ['POST /auth', login],
    ['POST /AUTH', login],
    ['POST /Auth/', login],
    ['POST /challenge', asked],
    ['POST /Challenge/', asked],
    ['GET /sessions/', sessions],
    ['HEAD /sessions', sessions],
    ['GET /request-auth/did:a:B', challenge, 'did:a:B'],
    ['HEAD /Request-Auth/did:a:B/', challenge, 'did:a:B'],
    ['GET /request-auth/did%3Aa%2Fb', challenge, 'did:a/b'],
    ['GET /request-auth/%E0%A4%A', challenge],
    ['DELETE /SESSIONS/a/', oneSession, 'a']
  ])('finds the route of %s like Express', (request, { answer }, ...[parameter]) =>
    expect(findRoute(request)).toEqual([answer, parameter])
  )

  it.each([
    ...['GET /', 'GET /auth', 'PUT /auth', 'POST /authx', 'POST /auth//', 'POST /auth/%', 'POST /request-auth/a'],
    ...['GET /request-auth', 'GET /request-auth/', 'GET /request-auth/a/b', 'DELETE /sessions', 'DELETE /sessions/a/b']
  ])('leaves %s to the application', (request) => expect(findRoute(request)).toEqual([undefined, undefined]))

  it.each([
    ['POST /Auth', 'case sensitive routing', undefined],
    ['POST /AUTH/', 'case sensitive routing', undefined],
    ['GET /Request-Auth/a', 'case sensitive routing', undefined],
    ['POST /challenge', 'case sensitive routing', undefined],
    ['POST /Challenge', 'case sensitive routing', asked],
    ['GET /request-auth/DID/', 'case sensitive routing', challenge],
    ['POST /auth/', 'strict routing', undefined],
    ['POST /Challenge', 'strict routing', undefined],
    ['GET /request-auth/a/', 'strict routing', undefined],
    ['POST /AUTH', 'strict routing', login],
    ['POST /CHALLENGE/', 'strict routing', asked]
  ])('finds the route of %s in an application with %s: %#', (request, setting, expected) =>
    expect(findRoute(request, [setting])[0]).toBe(expected?.answer)
  )
})

it('the address in a header counts only if the host trusts its proxy', async () => {
  const { post, log } = await testApp({ maxRequestsPerTimeSlot: 1 })
  const name = (number: number) => post('/request-auth', { did }, { 'X-Forwarded-For': `192.0.2.${number}` })
  for (let number = 0; number < 10; number += 1) await name(number).expect(200)
  await name(99).expect(429)
  expect(log.filter(({ fields }) => fields.event === 'trust-proxy-off')).toHaveLength(1)
})

it('more proxies than the host trusts are reported once, also if the setting is a list', async () => {
  for (const setting of [1, 'loopback', (_address: string, index: number) => index === 0]) {
    const { post, log } = await testApp({}, { before: (app) => app.set('trust proxy', setting) })
    const ask = (forwarded: string) => post('/request-auth', { did }, { 'X-Forwarded-For': forwarded }).expect(200)
    await ask('192.0.2.1')
    expect(log.map(({ fields }) => fields.event)).not.toContain('trust-proxy-few')
    for (let number = 0; number < 3; number += 1) await ask('192.0.2.1, 198.51.100.1')
    expect(log.filter(({ fields }) => fields.event === 'trust-proxy-few')).toHaveLength(1)
  }
})

describe('the form of a machine', () => {
  const machine = createMachine(1)

  it.each([true, false])('is accepted if the host has parsed it, extended: %j', async (extended) => {
    const before = (app: Express) => app.use(express.urlencoded({ extended }))
    const test = await testApp(machineConfig, { before })
    await test.post('/token', createForm(machine.assert())).expect(200)
    const twice = `${createForm(machine.assert({ jti: 'second one' }))}&resource=${ORDERS}`
    await test.post('/token', twice).expect(400, /"invalid_request"/)
    // If `extended` is false, `resource[x]` is the name of another parameter.
    const nested = createForm(machine.assert({ jti: 'third one' })).replace('&resource=', '&resource[x]=')
    await test.post('/token', nested).expect(extended ? 400 : 200)
  })

  it.each([
    ['bytes', express.raw({ type: '*/*' })],
    ['text', express.text({ type: '*/*' })]
  ])('is accepted if the host has read it as %s', async (_what, parser) => {
    const test = await testApp(machineConfig, { before: (app) => app.use(parser) })
    await test.post('/token', createForm(machine.assert())).expect(200)
  })
})
