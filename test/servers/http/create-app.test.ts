import { describe, expect, it } from '@jest/globals'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { memoryStore } from 'express-did-auth'
import { pino } from 'pino'
import request from 'supertest'
import { createApp, startingApp, addFallbacks } from '../../../servers/http/create-app.js'
import { readEnv } from '../../../servers/config/read-env.js'
import { exchange } from '../../support/faults/malformed.js'
import { testAuthServer } from '../../support/servers/test-app.js'

const env = readEnv({}, 'auth', false)
const silent = pino({ level: 'silent' })
const createTestApp = () => createApp({ env, log: silent, dependencies: [] }, [], [])

describe('every response of a server', () => {
  it.each([
    ['GET', '/nothing', 404, 'Not found'],
    ['POST', '/health', 404, 'Not found'],
    ['DELETE', '/auth', 404, 'Not found'],
    ['GET', '/%ff', 404, 'Not found'],
    ['GET', '/request-auth/%ff', 401, 'Invalid DID']
  ] as const)('%s %s is %i in plain text', async (method, path, status, text) => {
    const { listener } = await testAuthServer()
    const response = await request(listener)[method.toLowerCase() as 'get'](path)
    expect([response.status, response.text]).toEqual([status, text])
    expect(response.headers['content-type']).toBe('text/plain; charset=utf-8')
    expect(response.headers['x-content-type-options']).toBe('nosniff')
  })

  it('carries security headers, and does not name Express', async () => {
    const { listener } = await testAuthServer()
    const { headers } = await request(listener).get('/health').expect(200)
    expect(headers['content-security-policy']).toContain("default-src 'self'")
    expect(headers['strict-transport-security']).toContain('max-age=')
    expect(headers['x-frame-options']).toBe('SAMEORIGIN')
    expect(headers).not.toHaveProperty('x-powered-by')
    expect(headers).not.toHaveProperty('etag')
  })

  it('is plain text for a URL that Express cannot parse', async () => {
    const { listener } = await testAuthServer()
    const server = createServer(listener).listen(0)
    const { port } = server.address() as AddressInfo
    for (const target of ['http://[::1/auth', 'http://a:b/', '//', '*']) {
      const bytes = Buffer.from(`GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
      const { text } = await exchange(port, bytes)
      expect(text).toMatch(/^HTTP\/1\.1 (?:400|404) /)
      expect(text).toMatch(/content-type: text\/plain; charset=utf-8\r\n/i)
      expect(text).not.toContain('<')
    }
    server.close()
  })
})

describe('startingApp', () =>
  it('answers /health with 200, and /ready and other routes with 503', async () => {
    const identity = { serviceDid: 'did:ethr:rsk:0x01', privateKey: '', challengeSecret: '' }
    const serviceUrl = 'https://service.example'
    const parts = { env, log: silent, dependencies: [], identity, serviceUrl, store: memoryStore() }
    const listener = startingApp(parts)
    await request(listener).get('/health').expect(200)
    expect((await request(listener).get('/ready').expect(503)).body).toEqual({ status: 'starting', dependencies: {} })
    await request(listener).post('/request-auth').expect(503)
  }))

describe('addFallbacks', () => {
  it.each([
    ['/nothing', 404, 'ERR_NOT_FOUND', 'Not found'],
    ['/broken/%ff', 400, 'ERR_PATH', 'Malformed path'],
    ['/broken/a', 500, 'ERR_INTERNAL', 'Internal error']
  ])('answers %s with problem details if the client accepts them', async (path, status, code, title) => {
    const app = createTestApp()
    app.get('/broken/:name', () => {
      throw new Error('secret')
    })
    const listener = addFallbacks(app, { serviceUrl: 'https://auth.example', env, log: silent })
    const response = await request(listener).get(path).set('Accept', 'application/problem+json').expect(status)
    expect(response.headers).toMatchObject({
      'content-type': 'application/problem+json; charset=utf-8',
      'cache-control': 'no-store'
    })
    const requestId = response.headers['x-request-id']
    expect(JSON.parse(response.text)).toEqual({ type: 'about:blank', title, status, code, requestId })
  })
})

describe('an unhandled error of a route', () => {
  const createFailingApp = (error: unknown) => {
    const lines: string[] = []
    const app = createTestApp()
    app.get('/broken/:name', () => {
      throw error
    })
    const log = pino({}, { write: (line: string) => void lines.push(line) })
    return { listener: addFallbacks(app, { serviceUrl: 'https://auth.example', env, log }), lines }
  }

  it.each([
    ['an error', new RangeError('secret of a user\n    at secret (place)'), { name: 'RangeError' }],
    ['a string', 'secret', { name: 'string', stack: '' }]
  ])('is answered 500 without its message, which the log omits too: %s', async (_what, error, cause) => {
    const { listener, lines } = createFailingApp(error)
    expect((await request(listener).get('/broken/a').expect(500)).text).toBe('Internal error')
    expect(lines).toHaveLength(1)
    expect(JSON.parse(lines[0]!)).toMatchObject({ event: 'request-failed', code: 'ERR_INTERNAL', cause })
    expect(lines[0]).not.toContain('secret')
  })

  it('is answered 400 for an undecodable path parameter, and not logged as a failure', async () => {
    const { listener, lines } = createFailingApp('never')
    expect((await request(listener).get('/broken/%ff').expect(400)).text).toBe('Malformed path')
    expect(lines.map((line) => JSON.parse(line).event)).toEqual(['first-refusal'])
  })
})

describe('CORS', () => {
  const origin = 'https://app.example'

  it('is off without CORS_ORIGINS', async () => {
    const { listener } = await testAuthServer()
    const { headers } = await request(listener).get('/health').set('Origin', origin)
    expect(headers).not.toHaveProperty('access-control-allow-origin')
    await request(listener).options('/auth').set('Origin', origin).expect(404)
  })

  it('answers the preflight of a listed origin', async () => {
    const { listener } = await testAuthServer({ CORS_ORIGINS: origin })
    const { headers, text } = await request(listener)
      .options('/me')
      .set({
        Origin: origin,
        'Access-Control-Request-Method': 'GET',
        'Access-Control-Request-Headers': 'authorization'
      })
      .expect(204)
    expect(text).toBe('')
    expect(headers['access-control-allow-origin']).toBe(origin)
    expect(headers['access-control-allow-headers']).toBe(
      'Authorization,Content-Type,DID-Approval,DPoP,Idempotency-Key,If-Match,If-None-Match,Vault-Key'
    )
    expect(headers['access-control-max-age']).toBe('600')
    expect(headers).not.toHaveProperty('access-control-allow-credentials')
  })

  it("exposes this package's headers, also on refusals", async () => {
    const { listener } = await testAuthServer({ CORS_ORIGINS: `https://other.example,${origin}` })
    const { headers } = await request(listener).get('/me').set('Origin', origin).expect(401)
    expect(headers['access-control-expose-headers']).toBe(
      'Challenge-Expires-In,DPoP-Nonce,ETag,File-Expires-In,Idempotent-Replayed,Pin-Status,Retry-After,WWW-Authenticate,X-Request-Id'
    )
    expect(headers['access-control-allow-origin']).toBe(origin)
    expect(headers.vary).toContain('Origin')
  })

  it('allows credentials only with USE_COOKIES', async () => {
    const { listener } = await testAuthServer({ CORS_ORIGINS: origin, USE_COOKIES: 'true' })
    const { headers } = await request(listener).get('/health').set('Origin', origin)
    expect(headers['access-control-allow-credentials']).toBe('true')
  })

  it('answers the preflight of every origin at public documents', async () => {
    const { listener } = await testAuthServer({ CORS_ORIGINS: origin, RESOURCES: 'https://orders.example' })
    for (const path of ['/.well-known/did-auth.json', '/.well-known/jwks.json']) {
      const asked = request(listener).options(path).set('Origin', 'https://other.example')
      expect((await asked.expect(204)).headers['access-control-allow-origin']).toBe('*')
    }
  })

  it('allows no other origin', async () => {
    const { listener } = await testAuthServer({ CORS_ORIGINS: origin })
    for (const foreignOrigin of ['https://evil.example', 'null', 'https://app.example.evil.example']) {
      const { headers } = await request(listener).get('/health').set('Origin', foreignOrigin)
      expect(headers).not.toHaveProperty('access-control-allow-origin')
    }
  })
})
