import { beforeAll, describe, expect, it } from '@jest/globals'
import cors from 'cors'
import express from 'express'
import { corsOptions, loadCurve, setupDidAuth, type DidAuthConfig } from 'express-did-auth'
import { createDidAuth } from 'express-did-auth/fetch'
import request from 'supertest'
import { appClient } from '../support/servers/app-client.js'
import { challengeSecret, createNumberedWallet } from '../support/fixtures/fixtures.js'
import { refusal } from '../support/fixtures/refusal.js'
import { testApp } from '../support/servers/test-app.js'
import { testConfig } from '../../src/testing/index.js'

const serviceUrl = 'https://service.example'
const page = 'https://app.example.com'
const settings = { serviceUrl: `${serviceUrl}/login`, trustedOrigins: [page, serviceUrl] }
const REQUEST_HEADERS = ['Authorization', 'Content-Type', 'DID-Approval', 'DPoP', 'Idempotency-Key']

/** Creates an application with `cors` before the login. */
const corsApp = (config: Partial<DidAuthConfig>) =>
  testApp(
    { trustedOrigins: [page], ...config },
    { before: (app) => app.use(cors(corsOptions({ serviceUrl, trustedOrigins: [page], ...config }))) }
  )

// Services that a test does not wait for load it, and Jest refuses lazy imports between tests.
beforeAll(loadCurve)

describe('corsOptions', () => {
  it('allows the origins of serviceUrl and trustedOrigins, each once, and the headers of the login', () =>
    expect(corsOptions(settings)).toEqual({
      origin: [serviceUrl, page],
      credentials: false,
      methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
      allowedHeaders: REQUEST_HEADERS,
      exposedHeaders: ['Challenge-Expires-In', 'DPoP-Nonce', 'Idempotent-Replayed', 'Retry-After', 'WWW-Authenticate'],
      maxAge: 600
    }))

  it('allows no origin without a URL, and cookies with useCookies', () =>
    expect(corsOptions({ serviceUrl: 'urn:service', useCookies: true })).toMatchObject({
      origin: [],
      credentials: true
    }))

  const apps = [
    'tauri://localhost',
    'capacitor://localhost',
    `chrome-extension://${'a'.repeat(32)}`,
    'app://a.b-c:8080'
  ]

  it('allows further origins, also of apps', () =>
    expect(corsOptions(settings, [page, 'https://other.example', ...apps]).origin).toEqual([
      serviceUrl,
      page,
      'https://other.example',
      ...apps
    ]))

  it.each([['null'], ['*'], ['Tauri://localhost'], ['tauri://localhost/'], ['tauri:'], ['https://a.example:443'], [5]])(
    'throws ERR_CONFIG for the origin %j',
    (origin) => {
      const origins = [origin as string]
      expect(() => corsOptions(settings, origins)).toThrow(/^corsOptions: origins: received \[.*\]; give an array of/)
      const trusted = { ...settings, trustedOrigins: origins }
      expect(() => corsOptions(trusted)).toThrow(refusal('ERR_CONFIG'))
    }
  )

  it.each(apps)('throws ERR_CONFIG for the trusted origin %s, and names the second argument', (origin) => {
    const remedy = 'give http(s) origins only, and those of apps to corsOptions as its second argument'
    expect(() => corsOptions({ ...settings, trustedOrigins: [page, origin] })).toThrow(remedy)
  })

  it('reads the settings of setupDidAuth and createDidAuth', () => {
    const config: DidAuthConfig = { ...testConfig(), ...settings, challengeSecret, useCookies: true }
    const expected = corsOptions(config)
    expect(corsOptions(setupDidAuth(express.Router(), config))).toEqual(expected)
    expect(corsOptions(createDidAuth(config))).toEqual(expected)
  })

  it.each(['/request-auth', '/auth', '/refresh-token', '/logout', '/me'])(
    'lets the preflight of a page on another origin pass at %s',
    async (path) => {
      const { app } = await corsApp({})
      const preflight = await request(app)
        .options(path)
        .set({
          Origin: page,
          'Access-Control-Request-Method': 'POST',
          'Access-Control-Request-Headers': REQUEST_HEADERS.join(',').toLowerCase()
        })
        .expect(204)
      expect(preflight.headers).toMatchObject({
        'access-control-allow-origin': page,
        'access-control-allow-headers': REQUEST_HEADERS.join(','),
        'access-control-allow-methods': 'GET,HEAD,POST,PUT,PATCH,DELETE',
        'access-control-max-age': '600',
        vary: expect.stringContaining('Origin')
      })
      expect(preflight.headers).not.toHaveProperty('access-control-allow-credentials')
    }
  )

  it('lets a page on another origin log in with cookies, refresh and read refusals', async () => {
    const { createSignedLogin, post } = await corsApp({ useCookies: true })
    const login = await post('/auth', await createSignedLogin(), { Origin: page }).expect(200)
    const cookies = login.headers['set-cookie'] as unknown as string[]
    const Cookie = cookies.map((cookie) => cookie.split(';')[0]).join('; ')
    const refresh = await post('/refresh-token', undefined, { Origin: page, Cookie }).expect(200)
    const refused = await post('/refresh-token', undefined, { Origin: page }).expect(401)
    for (const { headers } of [login, refresh, refused]) {
      expect(headers).toMatchObject({
        'access-control-allow-origin': page,
        'access-control-allow-credentials': 'true',
        'access-control-expose-headers':
          'Challenge-Expires-In,DPoP-Nonce,Idempotent-Replayed,Retry-After,WWW-Authenticate'
      })
    }
  })

  it('lets no other page read an answer', async () => {
    const { post } = await corsApp({ useCookies: true })
    const { headers } = await post('/logout', undefined, { Origin: 'https://evil.example' })
    expect(headers).not.toHaveProperty('access-control-allow-origin')
  })

  it('is needed: without it, an answer of this package has no header of CORS', async () => {
    const { post } = await testApp()
    const { headers } = await post('/request-auth', { did: createNumberedWallet(1).did }, { Origin: page }).expect(200)
    expect(Object.keys(headers).filter((name) => name.startsWith('access-control-'))).toEqual([])
  })

  it('serves a login on a router of its own, which is mounted after cors', async () => {
    const [app, router] = [express(), express.Router()]
    const requireDid = setupDidAuth(router, { ...testConfig(), serviceUrl, trustedOrigins: [page] })
    app.use(cors(corsOptions(requireDid)), router)
    const { headers } = await appClient(app).post('/logout', undefined, { Origin: page }).expect(401)
    expect(headers['access-control-allow-origin']).toBe(page)
  })
})
