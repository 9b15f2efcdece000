import { describe, expect, it } from '@jest/globals'
import express, { type ErrorRequestHandler } from 'express'
import request from 'supertest'
import { toParserRefusal } from '../../src/express/express-routes.js'
import { setCookies } from '../support/servers/app-client.js'
import { testApp } from '../support/servers/test-app.js'
import { createForm, createMachine, machineConfig } from '../support/fixtures/machines.js'
import { createThrowing } from '../support/fixtures/refusal.js'

const hostSays: ErrorRequestHandler = (error: { status?: number }, _req, res, _next) => {
  res.status(error.status ?? 500).send('the host says')
}

/** Posts invalid JSON to a host with its parser before this package's routes, and its error handler after them. */
async function poster(options: Parameters<typeof express.json>[0] = {}, config = {}) {
  const { app, log } = await testApp(config, {
    before: (host) => host.use(express.json(options)),
    after: (host) => host.use(hostSays)
  })
  const post = (path: string, body = '{"did":"secret', headers = {}) =>
    request(app)
      .post(path)
      .set({ 'Content-Type': 'application/json', ...headers })
      .send(body)
  return { post, log }
}

describe("a body that the host's parser refuses", () => {
  it("gets 400 with this package's text on its own paths if it is invalid", async () => {
    const { post, log } = await poster()
    const challenges = ['/request-auth', '/request-signup']
    for (const path of ['/auth', '/signup', ...challenges, '/refresh-token', '/logout', '/AUTH/']) {
      await post(path).expect(400, 'Malformed JSON')
    }
    expect(log).toMatchObject([{ fields: { event: 'first-refusal', code: 'ERR_JSON' } }])
    const problem = await post('/auth', '{', { Accept: 'application/problem+json' }).expect(400)
    expect(problem.body).toMatchObject({ title: 'Malformed JSON', code: 'ERR_JSON' })
  })

  it('gets the form of OAuth at the token endpoint of machines', async () => {
    const { app } = await testApp(machineConfig, {
      before: (host) => host.use(express.urlencoded({ extended: false, limit: 100 }))
    })
    const form = createForm(createMachine(1).assert())
    const { body } = await request(app).post('/token').type('form').send(form).expect(413)
    expect(body).toEqual({ error: 'invalid_request', error_description: 'Request too large' })
  })

  it.each([
    ['1,100 parameters', '&x=1'.repeat(1_100), {}, 413, 'Request too large'],
    ['a damaged compression', '', { 'Content-Encoding': 'gzip' }, 400, 'Invalid input'],
    ['an unknown charset', '', { 'Content-Type': 'application/x-www-form-urlencoded; charset=x' }, 400, 'Invalid input']
  ])('gets that form also for %s, and no assertion reaches the host', async (_what, more, headers, status, text) => {
    const { app } = await testApp(machineConfig, {
      before: (host) => host.use(express.urlencoded({ extended: false }))
    })
    const form = createForm(createMachine(1).assert()) + more
    const { body } = await request(app).post('/token').type('form').set(headers).send(form).expect(status)
    expect(body).toEqual({ error: 'invalid_request', error_description: text })
  })

  it("gets 400 with this package's text on a configured path that is also a pattern", async () => {
    const { post } = await poster({}, { authPath: '/a.b-c_~/login', logoutPath: '/log.out/' })
    for (const path of ['/a.b-c_~/login', '/log.out']) await post(path).expect(400, 'Malformed JSON')
    for (const path of ['/aXb-c_~/login', '/auth']) await post(path).expect(400, 'the host says')
  })

  it.each([
    ['what is larger than the host allows', { limit: 100 }, {}, 413, 'Request too large'],
    ['an unknown encoding', {}, { 'Content-Encoding': 'garbage' }, 400, 'Malformed JSON'],
    ['an unknown charset', {}, { 'Content-Type': 'application/json; charset=garbage' }, 400, 'Malformed JSON'],
    [
      'what the verify function of the host refuses',
      { verify: createThrowing(new Error('not signed')) },
      {},
      400,
      'Malformed JSON'
    ]
  ])("gets this package's text on its own paths for %s", async (_name, options, headers, status, text) => {
    const { post } = await poster(options)
    await post('/signup', JSON.stringify({ did: 'a'.repeat(100) }), headers).expect(status, text)
  })

  it.each(['/', '/authx', '/request-auth/a/b'])('is left to the host on a path of the host: %s', async (path) => {
    await (await poster()).post(path).expect(400, 'the host says')
  })
})

describe('toParserRefusal', () => {
  const json = ['entity.parse.failed', 'encoding.unsupported', 'charset.unsupported', 'request.aborted']
  it.each([
    ...[...json, 'request.size.invalid', 'entity.verify.failed'].map((type) => [{ type }, 'ERR_JSON'] as const),
    [{ type: 'entity.too.large' }, 'ERR_TOO_LARGE'],
    [{ type: 'parameters.too.many' }, 'ERR_TOO_LARGE'],
    [{ type: 'querystring.parse.rangeError' }, 'ERR_INVALID'],
    [{ code: 'Z_DATA_ERROR' }, 'ERR_INVALID'],
    [{ type: ['entity.parse.failed'] }, undefined],
    [new Error('x'), undefined],
    ['x', undefined]
  ])('maps %j to %s', (error, code) => expect(toParserRefusal(error)?.code).toBe(code))
})

// Cause: the host's parser refused the body of a logout before this package's route, and both cookies stayed.
it("a logout whose body the host's parser refuses clears both cookies, except for another site", async () => {
  const config = { useCookies: true }
  const { app, logInForCookies } = await testApp(config, { before: (host) => host.use(express.json()) })
  const Cookie = await logInForCookies()
  const send = () => request(app).post('/logout').set({ Cookie }).type('json').send('{"refreshToken":')
  const cleared = setCookies(await send().expect(400, 'Malformed JSON'))
  expect(cleared.map((cookie) => cookie.slice(0, cookie.indexOf(';')))).toEqual(['authorization=', 'refresh-token='])
  const refused = await send().set('Sec-Fetch-Site', 'cross-site').expect(403, 'Cross-origin request refused')
  expect(setCookies(refused)).toEqual([])
})
