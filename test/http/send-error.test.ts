import { describe, expect, it } from '@jest/globals'
import express from 'express'
import request from 'supertest'
import { DidAuthError, errorTexts, type DidAuthErrorCode, type Logger } from 'express-did-auth'
import { errorSender } from '../../src/http/send-error.js'
import { testApp } from '../support/test-app.js'

const table: Record<DidAuthErrorCode, [status: number, text: string]> = {
  ERR_CONFIG: [500, 'Invalid configuration'],
  ERR_REQUEST: [401, 'Invalid request'],
  ERR_JSON: [400, 'Malformed JSON'],
  ERR_TOO_LARGE: [413, 'Request too large'],
  ERR_REQUEST_TIMEOUT: [408, 'Request timeout'],
  ERR_IDEMPOTENCY_KEY: [400, 'Invalid Idempotency-Key'],
  ERR_CROSS_ORIGIN: [403, 'Cross-origin request refused'],
  ERR_TOO_MANY_REQUESTS: [429, 'Too many requests'],
  ERR_DID: [401, 'Invalid DID'],
  ERR_DID_UNSUPPORTED: [401, 'Unsupported DID'],
  ERR_SIGNATURE: [401, 'Invalid signature'],
  ERR_CHALLENGE: [401, 'Invalid challenge response'],
  ERR_CHALLENGE_EXPIRED: [401, 'Invalid challenge response: expired'],
  ERR_CHALLENGE_USED: [401, 'Invalid challenge response: used'],
  ERR_MESSAGE: [401, 'Invalid sign-in message'],
  ERR_MESSAGE_DOMAIN: [401, 'Sign-in message for another site'],
  ERR_CREDENTIAL: [401, 'Invalid credential'],
  ERR_CREDENTIAL_EXPIRED: [401, 'Expired credential'],
  ERR_CREDENTIAL_ISSUER: [401, 'Unproved credential issuer'],
  ERR_DISCLOSURE_MISSING: [401, 'Missing credentials or claims'],
  ERR_BUSINESS_LOGIC: [401, 'Refused'],
  ERR_DUPLICATE_COOKIE: [401, 'Duplicate cookie'],
  ERR_ACCESS_TOKEN_MISSING: [401, 'Missing access token'],
  ERR_ACCESS_TOKEN: [401, 'Invalid access token'],
  ERR_ACCESS_TOKEN_EXPIRED: [401, 'Expired access token'],
  ERR_SESSION_ENDED: [401, 'Session ended'],
  ERR_SESSION_NOT_FOUND: [404, 'Session not found'],
  ERR_REFRESH_TOKEN: [401, 'Invalid refresh token'],
  ERR_REFRESH_TOKEN_REUSED: [401, 'Refresh token used twice: session revoked'],
  ERR_BUSY: [503, 'Busy, try again'],
  ERR_STORE: [503, 'Store unavailable, try again'],
  ERR_RESOLVER: [503, 'DID resolver unavailable, try again'],
  ERR_SIGNER: [503, 'Signer unavailable, try again'],
  ERR_BUSINESS_LOGIC_TIMEOUT: [503, 'Timed out, try again'],
  ERR_INTERNAL: [500, 'Internal error']
}
const rows = Object.entries(table).map(([code, [status, text]]) => ({ code: code as DidAuthErrorCode, status, text }))

const silent: Logger = { info: () => undefined, warn: () => undefined, error: () => undefined }

/** An application whose every request is answered with one error. */
function failingWith(error: unknown, logger = silent, errorFormat: 'text' | 'problem' = 'text') {
  const send = errorSender({ serviceUrl: 'https://service.example', errorFormat, logger })
  return express().use((req, res) => {
    send(req, res, error)
  })
}

describe('the answer to an error', () => {
  it('has a row for every code in the table of this test', () => {
    expect(Object.keys(table)).toEqual(Object.keys(errorTexts))
  })

  it.each(rows)('of $code is $status with its text as text/plain', async ({ code, status, text }) => {
    const response = await request(failingWith(new DidAuthError(code))).get('/')
    expect([response.status, response.text]).toEqual([status, text])
    expect(response.headers).toMatchObject({
      'content-type': 'text/plain; charset=utf-8',
      'content-length': String(text.length),
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store'
    })
    expect(response.headers['www-authenticate']).toBe(
      status === 401 ? 'DIDAuth realm="https://service.example"' : undefined
    )
    expect(response.headers['retry-after']).toBe(status === 429 || status === 503 ? '5' : undefined)
  })

  it.each(rows)('of $code is RFC 9457 for a client that asks for it', async ({ code, status, text }) => {
    const response = await request(failingWith(new DidAuthError(code)))
      .get('/')
      .set('Accept', 'application/problem+json')
    expect(response.status).toBe(status)
    expect(response.body).toEqual({ type: 'about:blank', title: text, status, code })
    expect(response.headers).toMatchObject({
      'content-type': 'application/problem+json; charset=utf-8',
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store'
    })
  })

  it.each([
    ['*/*', 'text/plain'],
    ['text/plain', 'text/plain'],
    ['text/html', 'text/plain'],
    ['application/json', 'text/plain'],
    ['application/*', 'application/problem+json'],
    ['application/json, application/problem+json', 'application/problem+json'],
    // Cause: axios puts `text/plain` before what its user adds, and the code of the error never came.
    ['application/json, text/plain, */*, application/problem+json', 'application/problem+json'],
    ['text/plain, Application/Problem+JSON ,text/html', 'application/problem+json'],
    ['text/plain, xapplication/problem+json', 'text/plain'],
    ['application/problem+json;q=0.5, text/plain', 'text/plain'],
    ['application/problem+json, text/plain;q=0.5', 'application/problem+json'],
    ['application/problem+json;q=0', 'text/plain'],
    ['garbage', 'text/plain'],
    [',;=,', 'text/plain'],
    ['', 'text/plain']
  ])('for Accept: %s is %s', async (accept, type) => {
    const response = await request(failingWith(new DidAuthError('ERR_DID')))
      .get('/')
      .set('Accept', accept)
    expect(response.headers['content-type']).toBe(`${type}; charset=utf-8`)
  })

  it.each([
    ['', 'application/problem+json'],
    ['*/*', 'application/problem+json'],
    ['application/json', 'application/problem+json'],
    // What axios sends.
    ['application/json, text/plain, */*', 'application/problem+json'],
    ['text/html', 'application/problem+json'],
    ['garbage', 'application/problem+json'],
    ['text/plain', 'text/plain'],
    ['text/*', 'text/plain'],
    ['text/plain, text/html', 'text/plain'],
    ['text/plain, application/problem+json', 'application/problem+json']
  ])("with errorFormat 'problem', for Accept: %s is %s", async (accept, type) => {
    const app = failingWith(new DidAuthError('ERR_DID'), silent, 'problem')
    const response = await request(app).get('/').set('Accept', accept)
    expect(response.headers['content-type']).toBe(`${type}; charset=utf-8`)
  })

  it("with errorFormat 'problem' is RFC 9457 from our routes and from requireDid, unless the client asks for text", async () => {
    const { app } = await testApp({ errorFormat: 'problem' })
    const problem = {
      type: 'about:blank',
      title: 'Missing access token',
      status: 401,
      code: 'ERR_ACCESS_TOKEN_MISSING'
    }
    expect((await request(app).get('/me').expect(401)).body).toEqual(problem)
    expect((await request(app).post('/auth').send({}).expect(401)).body).toMatchObject({ code: 'ERR_DID' })
    await request(app).get('/me').set('Accept', 'text/plain').expect(401, 'Missing access token')
  })

  it('says a whole number of seconds in Retry-After', async () => {
    const response = await request(failingWith(new DidAuthError('ERR_BUSY', { retryAfterSeconds: 1.2 }))).get('/')
    expect(response.headers['retry-after']).toBe('2')
  })

  it.each([
    ['an error', new Error('SELECT secret FROM vault')],
    ['a text', 'secret'],
    ['nothing', undefined],
    ['an error with a status of its own', Object.assign(new Error('secret'), { status: 404, expose: true })],
    ['an error that only looks like ours', { name: 'DidAuthError', code: 'ERR_DID', message: 'secret' }]
  ])('is 500 without a word about %s', async (_name, thrown) => {
    const response = await request(failingWith(thrown)).get('/')
    expect([response.status, response.text]).toEqual([500, 'Internal error'])
  })

  it('has the cause of a 500 in the log only', async () => {
    const lines: unknown[] = []
    const logger = { ...silent, error: (...line: unknown[]) => void lines.push(line) }
    await request(failingWith(new Error('the reason'), logger)).get('/')
    await request(failingWith(new DidAuthError('ERR_DID'), logger)).get('/')
    expect(lines).toEqual([
      [
        {
          event: 'request-failed',
          code: 'ERR_INTERNAL',
          cause: { name: 'Error', message: 'the reason', stack: expect.stringContaining('the reason') }
        },
        'Internal error'
      ]
    ])
  })

  it('has no body for HEAD', async () => {
    const response = await request(failingWith(new DidAuthError('ERR_DID'))).head('/')
    expect(response.status).toBe(401)
    expect(response.text).toBeUndefined()
  })

  it('is not tried when an answer is under way', async () => {
    const send = errorSender({ serviceUrl: 'https://service.example', logger: silent })
    const app = express().use((req, res) => {
      res.write('half')
      send(req, res, new Error('too late'))
      res.end()
    })
    await request(app).get('/').expect(200, 'half')
  })

  it('is not tried on a response whose client has gone', async () => {
    const send = errorSender({ serviceUrl: 'https://service.example', logger: silent })
    let touched = 'nothing'
    const app = express().use((req, res) => {
      res.on('close', () => {
        expect(res.destroyed).toBe(true)
        for (const verb of ['setHeader', 'writeHead', 'end'] as const) {
          Object.assign(res, { [verb]: () => (touched = verb) })
        }
        send(req, res, new DidAuthError('ERR_DID'))
        closed()
      })
      req.socket.destroy()
    })
    let closed: () => void = () => undefined
    const isClosed = new Promise<void>((resolve) => (closed = resolve))
    await expect(request(app).get('/')).rejects.toThrow('socket hang up')
    await isClosed
    expect(touched).toBe('nothing')
  })

  it('names a serviceUrl that is no URL as its realm', async () => {
    const { app } = await testApp({ serviceUrl: 'urn:example:service' })
    const response = await request(app).get('/me').expect(401)
    expect(response.headers['www-authenticate']).toBe('DIDAuth realm="urn:example:service"')
  })
})
