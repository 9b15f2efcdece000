import { describe, expect, it } from '@jest/globals'
import express from 'express'
import request from 'supertest'
import { defaultPaths, DidAuthError, errorTexts, sendErrorAnswer, type DidAuthErrorCode } from 'express-did-auth'
import { sendError } from '../../src/express/send-error.js'
import { createErrorAnswerer, type ErrorAnswererOptions } from '../../src/http/answer-error.js'
import { testApp } from '../support/servers/test-app.js'

const serviceUrl = 'https://service.example'
const table: Record<DidAuthErrorCode, [status: number, text: string]> = {
  ERR_CONFIG: [500, 'Invalid configuration'],
  ERR_REQUEST: [401, 'Invalid request'],
  ERR_INVALID: [400, 'Invalid input'],
  ERR_JSON: [400, 'Malformed JSON'],
  ERR_TOO_LARGE: [413, 'Request too large'],
  ERR_REQUEST_TIMEOUT: [408, 'Request timeout'],
  ERR_IDEMPOTENCY_KEY: [400, 'Invalid Idempotency-Key'],
  ERR_CROSS_ORIGIN: [403, 'Cross-origin request refused'],
  ERR_TOO_MANY_REQUESTS: [429, 'Too many requests'],
  ERR_FORBIDDEN: [403, 'Forbidden to this user'],
  ERR_APPROVAL: [403, 'Approval needed'],
  ERR_DID: [401, 'Invalid DID'],
  ERR_DID_UNSUPPORTED: [401, 'Unsupported DID'],
  ERR_SIGNATURE: [401, 'Invalid signature'],
  ERR_CHALLENGE: [401, 'Invalid challenge response'],
  ERR_CHALLENGE_EXPIRED: [401, 'Invalid challenge response: expired'],
  ERR_CHALLENGE_USED: [401, 'Invalid challenge response: used'],
  ERR_MESSAGE: [401, 'Invalid sign-in message'],
  ERR_MESSAGE_DOMAIN: [401, 'Sign-in message for another site'],
  ERR_NETWORK: [401, 'Network not accepted'],
  ERR_CONTRACT_ABSENT: [401, 'No contract at this address'],
  ERR_CONTRACT_SIGNATURE: [401, 'Refused by the contract'],
  ERR_CREDENTIAL: [401, 'Invalid credential'],
  ERR_CREDENTIAL_EXPIRED: [401, 'Expired credential'],
  ERR_CREDENTIAL_ISSUER: [401, 'Unproved credential issuer'],
  ERR_CREDENTIAL_REVOKED: [401, 'Revoked credential'],
  ERR_DISCLOSURE_MISSING: [401, 'Missing credentials or claims'],
  ERR_BUSINESS_LOGIC: [401, 'Refused'],
  ERR_DUPLICATE_COOKIE: [401, 'Duplicate cookie'],
  ERR_ACCESS_TOKEN_MISSING: [401, 'Missing access token'],
  ERR_ACCESS_TOKEN: [401, 'Invalid access token'],
  ERR_ACCESS_TOKEN_EXPIRED: [401, 'Expired access token'],
  ERR_SESSION_ENDED: [401, 'Session ended'],
  ERR_DEVICE_PROOF: [401, 'Invalid device proof'],
  ERR_DEVICE_NONCE: [401, 'Device proof needs a new nonce'],
  ERR_RESOURCE: [400, 'Unknown resource'],
  ERR_CLIENT_ASSERTION: [401, 'Invalid client assertion'],
  ERR_GRANT_TYPE: [400, 'Unsupported grant type'],
  ERR_SESSION_NOT_FOUND: [404, 'Session not found'],
  ERR_REFRESH_TOKEN: [401, 'Invalid refresh token'],
  ERR_REFRESH_TOKEN_REUSED: [401, 'Refresh token used twice: session revoked'],
  ERR_BUSY: [503, 'Busy, try again'],
  ERR_STORE: [503, 'Store unavailable, try again'],
  ERR_RESOLVER: [503, 'DID resolver unavailable, try again'],
  ERR_CREDENTIAL_STATUS: [503, 'Credential status unavailable, try again'],
  ERR_CHAIN: [503, 'Chain unavailable, try again'],
  ERR_KEYS: [503, 'Keys unavailable, try again'],
  ERR_ENDED_SESSIONS: [503, 'Ended sessions unknown, try again'],
  ERR_SIGNER: [503, 'Signer unavailable, try again'],
  ERR_BUSINESS_LOGIC_TIMEOUT: [503, 'Timed out, try again'],
  ERR_INTERNAL: [500, 'Internal error']
}
const rows = Object.entries(table).map(([code, [status, text]]) => ({ code: code as DidAuthErrorCode, status, text }))

const silent = { info: () => undefined, warn: () => undefined, error: () => undefined }

/** Sends a request to an application that responds with this error. */
function ask(error: unknown, Accept?: string, options: Partial<ErrorAnswererOptions> = {}) {
  const answerError = createErrorAnswerer({ serviceUrl, logger: silent, ...options })
  const app = express().use((req, res) => sendError(answerError, req, res, error))
  return request(app)
    .get('/')
    .set(Accept === undefined ? {} : { Accept })
}

describe('the response to an error', () => {
  it('has a row for every code in the table of this test', () =>
    expect(Object.keys(table)).toEqual(Object.keys(errorTexts)))

  it.each(rows)('is $status with its text for $code, or RFC 9457 for a client that accepts it', async (row) => {
    const { code, status, text } = row
    const { headers } = await ask(new DidAuthError(code)).expect(status, text)
    const always = { 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' }
    const length = String(text.length)
    expect(headers).toMatchObject({ ...always, 'content-type': 'text/plain; charset=utf-8', 'content-length': length })
    expect(headers['www-authenticate']).toBe(status === 401 ? 'DIDAuth realm="https://service.example"' : undefined)
    expect(headers['retry-after']).toBe(status === 429 || status === 503 ? '5' : undefined)
    const problem = await ask(new DidAuthError(code), 'application/problem+json').expect(status)
    expect(problem.body).toEqual({ type: 'about:blank', title: text, status, code })
    expect(problem.headers).toMatchObject({ ...always, 'content-type': 'application/problem+json; charset=utf-8' })
  })

  it.each([
    ['*/*', 'text/plain'],
    ['text/plain', 'text/plain'],
    ['text/html', 'text/plain'],
    ['application/json', 'text/plain'],
    ['application/*', 'application/problem+json'],
    ['application/json, application/problem+json', 'application/problem+json'],
    // Cause: axios puts `text/plain` before the user's types, and clients never got the code of the error.
    ['application/json, text/plain, */*, application/problem+json', 'application/problem+json'],
    ['text/plain, Application/Problem+JSON ,text/html', 'application/problem+json'],
    ['text/plain, xapplication/problem+json', 'text/plain'],
    ['application/problem+json;q=0.5, text/plain', 'text/plain'],
    ['application/problem+json, text/plain;q=0.5', 'application/problem+json'],
    ['application/problem+json;q=0', 'text/plain'],
    ['garbage', 'text/plain'],
    [',;=,', 'text/plain'],
    ['', 'text/plain']
  ])('follows Accept: %s gets %s', async (accept, type) => {
    const { headers } = await ask(new DidAuthError('ERR_DID'), accept)
    expect(headers['content-type']).toBe(`${type}; charset=utf-8`)
  })

  it.each([
    ['', 'application/problem+json'],
    ['*/*', 'application/problem+json'],
    ['application/json', 'application/problem+json'],
    // axios sends this.
    ['application/json, text/plain, */*', 'application/problem+json'],
    ['text/html', 'application/problem+json'],
    ['garbage', 'application/problem+json'],
    ['text/plain', 'text/plain'],
    ['text/*', 'text/plain'],
    ['text/plain, text/html', 'text/plain'],
    ['text/plain, application/problem+json', 'application/problem+json']
  ])("follows Accept with errorFormat 'problem': %s gets %s", async (accept, type) => {
    const { headers } = await ask(new DidAuthError('ERR_DID'), accept, { errorFormat: 'problem' })
    expect(headers['content-type']).toBe(`${type}; charset=utf-8`)
  })

  it("is RFC 9457 from this package's routes and from requireDid with errorFormat 'problem'", async () => {
    const { me, post } = await testApp({ errorFormat: 'problem' })
    expect((await me().expect(401)).body).toMatchObject({ code: 'ERR_ACCESS_TOKEN_MISSING' })
    expect((await post('/auth', {}).expect(401)).body).toMatchObject({ code: 'ERR_DID' })
  })

  it.each([
    ['an error', new Error('SELECT secret FROM vault')],
    ['a text', 'secret'],
    ['nothing', undefined],
    ['an error with a status of its own', Object.assign(new Error('secret'), { status: 404, expose: true })],
    ['an error that only looks like ours', { name: 'DidAuthError', code: 'ERR_DID', message: 'secret' }]
  ])('is 500 without details about %s', (_name, thrown) => ask(thrown).expect(500, 'Internal error'))

  it('has the cause of a 500 only in the log', async () => {
    const lines: unknown[] = []
    const logger = { ...silent, error: (...line: unknown[]) => void lines.push(line) }
    await ask(new Error('the reason'), undefined, { logger })
    await ask(new DidAuthError('ERR_DID'), undefined, { logger })
    const cause = { name: 'Error', message: 'the reason', stack: expect.stringContaining('the reason') }
    expect(lines).toEqual([[{ event: 'request-failed', code: 'ERR_INTERNAL', cause }, 'Internal error']])
  })

  it('has no body for HEAD', async () => {
    const { app } = await testApp()
    expect((await request(app).head('/me').expect(401)).text).toBeUndefined()
  })

  it('is as without Accept if this header is longer than 1,024 characters', async () => {
    const { get } = await testApp()
    const fill = (length: number): string => 'application/problem+json'.padEnd(length, ',a/b')
    const ask = async (length: number) => (await get('/me', { Accept: fill(length) }).expect(401)).type
    expect([await ask(1_024), await ask(1_025), await ask(8_000)]).toEqual([
      'application/problem+json',
      'text/plain',
      'text/plain'
    ])
  })

  it('is not sent if another response has started', async () => {
    const answerError = createErrorAnswerer({ serviceUrl, logger: silent })
    const app = express().use((req, res) => {
      res.write('half')
      sendError(answerError, req, res, new Error('too late'))
      res.end()
    })
    await request(app).get('/').expect(200, 'half')
  })

  it('is not sent to a client that has disconnected', async () => {
    const answerError = createErrorAnswerer({ serviceUrl, logger: silent })
    let touched = 'nothing'
    let closed: () => void = () => undefined
    const isClosed = new Promise<void>((resolve) => (closed = resolve))
    const app = express().use((req, res) => {
      res.on('close', () => {
        expect(res.destroyed).toBe(true)
        for (const verb of ['setHeader', 'writeHead', 'end'] as const) {
          Object.assign(res, { [verb]: () => (touched = verb) })
        }
        sendError(answerError, req, res, new DidAuthError('ERR_DID'))
        closed()
      })
      req.socket.destroy()
    })
    await expect(request(app).get('/')).rejects.toThrow('socket hang up')
    await isClosed
    expect(touched).toBe('nothing')
  })

  it('contains a serviceUrl that is not a URL as its realm', async () => {
    const { me } = await testApp({ serviceUrl: 'urn:example:service' })
    expect((await me().expect(401)).headers['www-authenticate']).toBe('DIDAuth realm="urn:example:service"')
  })
})

describe('sendErrorAnswer', () =>
  it("sends an application's error like the package's own, with whole seconds in Retry-After", async () => {
    const busy = { status: 504, code: 'ERR_UPSTREAM', text: 'Upstream timed out', retryAfterSeconds: 1.5 }
    const app = express().use((req, res) => sendErrorAnswer(req, res, busy, { serviceUrl, errorFormat: 'problem' }))
    const { headers } = await request(app).get('/').set('Accept', 'text/plain').expect(504, 'Upstream timed out')
    expect(headers).toMatchObject({ 'cache-control': 'no-store', 'retry-after': '2' })
    expect((await request(app).get('/')).body).toMatchObject({ title: 'Upstream timed out', code: 'ERR_UPSTREAM' })
  }))

it('defaultPaths has the routes that accept POST', () =>
  expect(defaultPaths).toEqual({
    requestSignup: '/request-signup',
    signup: '/signup',
    requestAuth: '/request-auth',
    auth: '/auth',
    refreshToken: '/refresh-token',
    logout: '/logout'
  }))
