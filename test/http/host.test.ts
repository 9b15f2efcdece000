import { describe, expect, it } from '@jest/globals'
import cookieParser from 'cookie-parser'
import express, { type ErrorRequestHandler, type Express, type RequestHandler } from 'express'
import session from 'express-session'
import helmet from 'helmet'
import request from 'supertest'
import { logIn, loginChallenge, setCookies, signedLogin } from '../support/app-client.js'
import { type Host, testApp } from '../support/test-app.js'
import { loginText, walletOf } from '../support/wallet.js'

const wallet = walletOf(1)

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

describe('an application with our routes', () => {
  it.each(parsers)('logs a user in when it has before them: %s', async (_name, before) => {
    const { app } = await testApp({}, { before })
    const { accessToken } = await logIn(app, wallet)
    await request(app).get('/me').set('Authorization', `DIDAuth ${accessToken}`).expect(200)
  })

  it.each(parsers)('logs a user in when it has after them: %s', async (_name, after) => {
    const { app } = await testApp({}, { after })
    await logIn(app, wallet)
  })

  it.each(parsers)('answers 400 to JSON that does not parse, when it has before them: %s', async (_name, before) => {
    const { app } = await testApp({}, { before })
    const response = await request(app).post('/auth').type('application/json').send('{"did":')
    expect([response.status, response.text]).toEqual([400, 'Malformed JSON'])
    expect(response.headers['content-type']).toBe('text/plain; charset=utf-8')
  })

  it('answers 401 to an empty body behind express.json()', async () => {
    const { app } = await testApp({}, { before: (host) => host.use(express.json()) })
    const response = await request(app).post('/auth').type('application/json').expect(401)
    expect(response.text).toBe('Invalid DID')
  })

  it('answers 413 to a body of more than 16 KiB that the host has read as bytes', async () => {
    const { app } = await testApp({}, { before: (host) => host.use(express.raw({ type: () => true })) })
    const response = await request(app)
      .post('/auth')
      .send({ did: 'a'.repeat(16 * 1024) })
      .expect(413)
    expect(response.text).toBe('Request too large')
  })

  it.each([
    ['a scalar', '7'],
    ['null', 'null'],
    ['an array', '[{"did":"did:ethr:rsk:0x7e5f4552091a69125d5dfcb7b8c2659029395bdf"}]']
  ])('takes %s that express.json({ strict: false }) has read for an empty body: 401', async (_name, json) => {
    const { app } = await testApp({}, { before: (host) => host.use(express.json({ strict: false })) })
    const response = await request(app).post('/request-auth').type('application/json').send(json).expect(401)
    expect(response.text).toBe('Invalid DID')
  })

  it.each([
    ['a form', (app: Express) => app.use(express.urlencoded({ extended: true })), 'application/x-www-form-urlencoded'],
    ['a form of a wrong case', (app: Express) => app.use(formParser), 'Application/X-WWW-Form-Urlencoded; a=b'],
    ['a multipart form', (app: Express) => app.use(formParser), 'multipart/form-data; boundary=a']
  ])('lets no one in by %s that the host has read, which any other site could send', async (_name, before, type) => {
    const { app } = await testApp({}, { before })
    const login = await signedLogin(app, wallet)
    await request(app).post('/auth').type(type).send(new URLSearchParams(login).toString()).expect(401, 'Invalid DID')
    await request(app).post('/auth').send(login).expect(200)
  })

  it.each([undefined, 'application/json', 'application/vnd.api+json'])(
    'takes an object that the host has read, with the type %s',
    async (type) => {
      const { app } = await testApp({}, { before: (host) => host.use(queryParser) })
      const login = await signedLogin(app, wallet)
      const sent = request(app).post('/auth').query(login)
      await (type === undefined ? sent : sent.type(type)).expect(200)
    }
  )

  it('keeps the bodies of its own routes', async () => {
    const { app } = await testApp(
      {},
      {
        after: (host) => {
          host.use(express.json(), express.urlencoded({ extended: false }), express.text(), express.raw())
          host.post('/echo', (req, res) => {
            res.json({ isBuffer: Buffer.isBuffer(req.body), body: JSON.stringify(req.body) })
          })
        }
      }
    )
    const echo = async (type: string, body: string): Promise<unknown> =>
      (await request(app).post('/echo').type(type).send(body).expect(200)).body
    expect(await echo('application/json', '{"a":1}')).toEqual({ isBuffer: false, body: '{"a":1}' })
    expect(await echo('application/x-www-form-urlencoded', 'a=1')).toEqual({ isBuffer: false, body: '{"a":"1"}' })
    expect(await echo('text/plain', 'a')).toEqual({ isBuffer: false, body: '"a"' })
    expect(await echo('application/octet-stream', 'a')).toMatchObject({ isBuffer: true })
  })

  it('reads no body of its own routes: without a parser req.body is undefined and the bytes are there', async () => {
    const { app } = await testApp(
      {},
      {
        after: (host) => {
          host.post('/bytes', (req, res) => {
            let text = ''
            req.on('data', (chunk: Buffer) => (text += chunk.toString()))
            req.on('end', () => res.json({ body: typeof req.body, text }))
          })
        }
      }
    )
    const response = await request(app).post('/bytes').send({ a: 1 }).expect(200)
    expect(response.body).toEqual({ body: 'undefined', text: '{"a":1}' })
  })

  it.each(['before', 'after'] as const)(
    'keeps req.cookies and req.signedCookies of a parser %s them',
    async (place) => {
      const signed = 's:jane.KFR9GaE5+FqeDX2XA5VDv1nx2cE7zCMlrcKgMK8mO74'
      const { app } = await testApp(
        { useCookies: true },
        {
          [place]: (host: Express) => host.use(cookieParser('secret of the host')),
          ...(place === 'before' && { after: addCookieRoutes })
        }
      )
      if (place === 'after') addCookieRoutes(app)
      const response = await request(app)
        .get('/cookies')
        .set('Cookie', `plain=1; json=j:{"a":1}; forged=${signed}`)
        .expect(200)
      expect(response.body).toEqual({ cookies: { plain: '1', json: { a: 1 } }, signedCookies: { forged: false } })
    }
  )

  it('sets no req.cookies on the routes that it guards', async () => {
    const { app } = await testApp(
      { useCookies: true },
      {
        after: (host, requireDid) =>
          host.get('/plain', requireDid, (req, res) => {
            res.json({ cookies: typeof req.cookies })
          })
      }
    )
    const { body } = await request(app)
      .post('/auth')
      .send(await signedLogin(app, wallet))
      .expect(200)
      .then((response) => {
        const cookies = response.headers['set-cookie'] as unknown as string[]
        return request(app)
          .get('/plain')
          .set('Cookie', cookies.map((cookie) => cookie.split(';')[0]).join('; '))
      })
    expect(body).toEqual({ cookies: 'undefined' })
  })

  it('answers its own 404 to what is no route of ours', async () => {
    const { app } = await testApp(
      {},
      {
        after: (host) => {
          host.use((_req, res) => {
            res.status(404).json({ host: 'nothing here' })
          })
        }
      }
    )
    for (const [method, path] of [
      ['get', '/'],
      ['get', '/auth'],
      ['put', '/auth'],
      ['post', '/request-auth/did:web:a'],
      ['get', '/request-auth'],
      ['get', '/logout'],
      ['delete', '/refresh-token'],
      ['post', '/authx'],
      ['get', '/request-auth/a/b']
    ] as const) {
      const response = await request(app)[method](path).expect(404)
      expect(response.body).toEqual({ host: 'nothing here' })
    }
  })

  it("leaves errors of the host's own routes to the host's own error handler", async () => {
    const seen: unknown[] = []
    const onError: ErrorRequestHandler = (error: Error, _req, res, _next) => {
      seen.push(error.message)
      res.status(418).send('the host says')
    }
    const fail = (): never => {
      throw new Error('of the host')
    }
    const { app } = await testApp(
      {},
      {
        before: (host) => host.get('/before', fail),
        after: (host, requireDid) => {
          host.get('/after', fail)
          host.get('/guarded', requireDid, fail)
          host.use(onError)
        }
      }
    )
    const { accessToken } = await logIn(app, wallet)
    for (const path of ['/before', '/after', '/guarded']) {
      const response = await request(app).get(path).set('Authorization', `DIDAuth ${accessToken}`).expect(418)
      expect(response.text).toBe('the host says')
    }
    expect(seen).toEqual(['of the host', 'of the host', 'of the host'])
  })

  it("answers its own refusals, and never calls the host's error handler for them", async () => {
    const { app } = await testApp(
      {},
      {
        after: (host) => {
          host.use(((_error, _req, res, _next) => {
            res.status(418).send('the host says')
          }) satisfies ErrorRequestHandler)
        }
      }
    )
    await request(app).get('/me').expect(401, 'Missing access token')
    await request(app).post('/auth').send({}).expect(401, 'Invalid DID')
    await request(app).get('/request-auth/%E0%A4%A').expect(401, 'Invalid DID')
  })

  it("answers through the host's error handler when the host's own logger throws", async () => {
    const fail = (): never => {
      throw new Error('the disk of the log is full')
    }
    const { app } = await testApp(
      {
        logger: { info: () => undefined, warn: () => undefined, error: fail },
        authenticationBusinessLogic: () => ({ tokenClaims: 'no object' })
      },
      {
        after: (host) => {
          host.use(((error: Error, _req, res, _next) => {
            res.status(500).send(error.message)
          }) satisfies ErrorRequestHandler)
        }
      }
    )
    const response = await request(app)
      .post('/auth')
      .send(await signedLogin(app, wallet))
    expect(response.status).toBe(500)
    expect(response.text).toBe('the disk of the log is full')
  })

  it('serves all routes under the prefix of a router, and none outside', async () => {
    const { app } = await testApp({}, { prefix: '/api/v1' })
    const challenge = await request(app).get(`/api/v1/request-auth/${wallet.did}`).expect(200)
    const sig = wallet.personalSign(loginText('service.example', (challenge.body as { challenge: string }).challenge))
    const tokens = await request(app).post('/api/v1/auth').send({ did: wallet.did, sig }).expect(200)
    const { accessToken, refreshToken } = tokens.body as Record<string, string>
    await request(app).get('/api/v1/me').set('Authorization', `DIDAuth ${accessToken!}`).expect(200)
    await request(app).post('/api/v1/refresh-token').send({ refreshToken }).expect(200)
    await request(app).post('/api/v1/logout').set('Authorization', `DIDAuth ${accessToken!}`).expect(200)
    await request(app).get(`/request-auth/${wallet.did}`).expect(404)
    await request(app).post('/auth').send({ did: wallet.did, sig }).expect(404)
  })

  it.each([
    ['https://service.example', '/api/v1', 'https://service.example/api/v1/signup'],
    ['urn:example:service', '/api/v1', undefined]
  ])('of %s names %s, where it is mounted, in the replyUrl of its sdr', async (url, prefix, replyUrl) => {
    const { app } = await testApp({ serviceUrl: url, requiredCredentials: ['Email'] }, { prefix })
    const { body } = await request(app).get(`${prefix}/request-signup/${wallet.did}`).expect(200)
    expect(payloadOf((body as { sdr: string }).sdr).replyUrl).toBe(replyUrl)
    const posted = await request(app).post(`${prefix}/request-signup`).send({ did: wallet.did }).expect(200)
    expect(payloadOf((posted.body as { sdr: string }).sdr).replyUrl).toBe(replyUrl)
  })

  it.each([[false], [true]])('lives behind express-session and helmet, with useCookies: %j', async (useCookies) => {
    const { app } = await testApp(
      { useCookies },
      {
        before: (host) =>
          host.use(helmet(), session({ secret: 'secret of the host', resave: true, saveUninitialized: true }))
      }
    )
    const response = await request(app)
      .post('/auth')
      .send(await signedLogin(app, wallet))
      .expect(200)
    expect(setCookies(response).map((cookie) => cookie.split('=')[0])).toEqual(
      useCookies ? ['authorization', 'refresh-token', 'connect.sid'] : ['connect.sid']
    )
    expect(response.headers['x-frame-options']).toBe('SAMEORIGIN')
    const refusal = await request(app).get('/me').expect(401, 'Missing access token')
    expect(setCookies(refusal)).toHaveLength(1)
  })

  it('gives each of two configurations on one application its own users', async () => {
    const { app } = await testApp()
    const second = await testApp({
      serviceUrl: 'https://second.example',
      requestAuthPath: '/second/request-auth',
      authPath: '/second/auth'
    })
    app.use(second.app)
    const { accessToken } = await logIn(app, wallet)
    const { body } = await request(app).post('/second/request-auth').send({ did: wallet.did }).expect(200)
    const sig = wallet.personalSign(loginText('second.example', (body as { challenge: string }).challenge))
    await request(app).post('/second/auth').send({ did: wallet.did, sig }).expect(200)
    await request(second.app).get('/me').set('Authorization', `DIDAuth ${accessToken}`).expect(401)
  })
})

describe('the paths', () => {
  const paths = {
    requestSignupPath: '/a/Request-Signup',
    signupPath: '/a/signup',
    requestAuthPath: '/b/challenge/',
    authPath: '/b/login',
    logoutPath: '/c',
    refreshTokenPath: '/d/e/f'
  }

  it('serves every route where it is configured, and nothing at the default', async () => {
    const { app } = await testApp(paths)
    for (const path of ['/a/Request-Signup', '/b/challenge/', '/b/challenge']) {
      const response = await request(app).post(path).send({ did: wallet.did }).expect(200)
      expect(response.body).toEqual({ challenge: expect.stringMatching(/^[0-9a-f]{64}$/) })
    }
    await request(app).get(`/a/Request-Signup/${wallet.did}`).expect(200)
    await request(app).get(`/b/challenge/${wallet.did}`).expect(200)
    await request(app).post('/a/signup').expect(401)
    await request(app).post('/b/login').expect(401)
    await request(app).post('/c').expect(401)
    await request(app).post('/d/e/f').expect(401)
    for (const path of ['/request-signup', '/signup', '/request-auth', '/auth', '/logout', '/refresh-token']) {
      await request(app).post(path).expect(404)
    }
  })

  it.each(['/AUTH', '/Auth/', '/auth/'])('serves %s as /auth, as Express does', async (path) => {
    const { app } = await testApp()
    await request(app)
      .post(path)
      .send(await signedLogin(app, wallet))
      .expect(200)
  })

  describe('of an application with case sensitive routing', () => {
    const host: Host = { before: (app) => app.enable('case sensitive routing') }

    it.each(['/Auth', '/AUTH', '/Auth/'])("leave POST %s to the host's own route", async (path) => {
      const { app } = await testApp({}, withOwnRoute(host, path))
      await request(app).post(path).send({}).expect(200, 'of the host')
    })

    it('leave GET /Request-Auth/:did to the host', async () => {
      const { app } = await testApp({}, host)
      await request(app).get(`/Request-Auth/${wallet.did}`).expect(404)
    })

    it('serve the configured spelling, with one slash at its end or none, and a DID in every case', async () => {
      const { app } = await testApp({ requestAuthPath: '/Challenge' }, host)
      for (const path of ['/Challenge', '/Challenge/']) {
        await request(app).post(path).send({ did: wallet.did }).expect(200)
      }
      await request(app).get(`/Challenge/did:ethr:rsk:${wallet.address}/`).expect(200)
      await request(app).post('/challenge').send({ did: wallet.did }).expect(404)
    })
  })

  describe('of an application with strict routing', () => {
    const host: Host = { before: (app) => app.enable('strict routing') }

    it('leave POST /auth/ to the host', async () => {
      const { app } = await testApp({}, withOwnRoute(host, '/auth/'))
      await request(app).post('/auth/').send({}).expect(200, 'of the host')
    })

    it('leave GET /request-auth/:did/ to the host', async () => {
      const { app } = await testApp({}, host)
      await request(app).get(`/request-auth/${wallet.did}/`).expect(404)
    })

    it('serve what is configured, in every case', async () => {
      const { app } = await testApp({ requestAuthPath: '/challenge/' }, host)
      await request(app).post('/CHALLENGE/').send({ did: wallet.did }).expect(200)
      await request(app).post('/challenge').send({ did: wallet.did }).expect(404)
      await request(app).get(`/challenge/${wallet.did}`).expect(200)
      await request(app).post('/AUTH').send({}).expect(401, 'Invalid DID')
    })
  })

  it('takes the DID of a path percent-encoded as well', async () => {
    const { app } = await testApp()
    const response = await request(app)
      .get(`/request-auth/${encodeURIComponent(wallet.did)}`)
      .expect(200)
    expect((response.body as { challenge: string }).challenge).toBe(await loginChallenge(app, wallet.did))
  })

  it('answers HEAD of a challenge with headers only, and leaves OPTIONS to the application', async () => {
    const { app } = await testApp()
    const head = await request(app).head(`/request-auth/${wallet.did}`).expect(200)
    expect(head.headers).toMatchObject({ 'challenge-expires-in': '300', 'cache-control': 'no-store' })
    expect(head.text).toBeUndefined()
    app.options('/auth', (_req, res) => res.set('Allow', 'POST').sendStatus(204))
    const options = await request(app).options('/auth').expect(204)
    expect(options.headers.allow).toBe('POST')
  })

  it.each([['/auth/%'], ['/auth/%E0%A4%A']])('answers 404 to %s, which is no route', async (path) => {
    const { app } = await testApp()
    await request(app).post(path).expect(404)
  })
})

/** Parses every form, as express.urlencoded() and multer do. */
const formParser: RequestHandler[] = [
  express.text({ type: (req) => /form/i.test(req.headers['content-type'] ?? '') }),
  (req, _res, next) => {
    if (typeof req.body === 'string') req.body = Object.fromEntries(new URLSearchParams(req.body))
    next()
  }
]

/** Sets an object as body before anybody else, as serverless platforms do; here it stands in the query. */
const queryParser: RequestHandler = (req, _res, next) => {
  if (Object.keys(req.query).length > 0) req.body = { ...req.query }
  next()
}

/** A host with a route of its own behind ours. */
function withOwnRoute(host: Host, path: string): Host {
  return {
    ...host,
    after: (app) =>
      app.post(path, (_req, res) => {
        res.send('of the host')
      })
  }
}

function payloadOf(jwt: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(jwt.split('.')[1]!, 'base64url').toString()) as Record<string, unknown>
}

function addCookieRoutes(app: Express): void {
  app.get('/cookies', (req, res) => {
    res.json({ cookies: req.cookies as unknown, signedCookies: req.signedCookies as unknown })
  })
}
