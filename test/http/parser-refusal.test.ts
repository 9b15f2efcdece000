import { describe, expect, it } from '@jest/globals'
import express, { type ErrorRequestHandler } from 'express'
import request from 'supertest'
import { type Host, testApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const hostSays: ErrorRequestHandler = (error: { status?: number }, _req, res, _next) => {
  res.status(error.status ?? 500).send('the host says')
}

/** A host whose parser stands before our routes, and whose error handler stands behind them. */
const hostWith = (parser: express.RequestHandler): Host => ({
  before: (app) => app.use(parser),
  after: (app) => app.use(hostSays)
})

const failingWith = (error: unknown) =>
  hostWith((_req, _res, next) => {
    next(error)
  })

describe('what a body parser of the host refuses', () => {
  it('on a path of ours is 400 in our words, when it does not parse', async () => {
    const { app, log } = await testApp({}, hostWith(express.json()))
    for (const path of [
      '/auth',
      '/signup',
      '/request-auth',
      '/request-signup',
      '/refresh-token',
      '/logout',
      '/AUTH/'
    ]) {
      const response = await request(app).post(path).type('application/json').send('{"did":"secret')
      expect([response.status, response.text]).toEqual([400, 'Malformed JSON'])
    }
    expect(log).toMatchObject([{ fields: { event: 'first-refusal', code: 'ERR_JSON' } }])
  })

  it('on a configured path of ours is 400 in our words, whatever a pattern would make of it', async () => {
    const { app } = await testApp({ authPath: '/a.b-c_~/login', logoutPath: '/log.out/' }, hostWith(express.json()))
    const post = (path: string) => request(app).post(path).type('application/json').send('{')
    await post('/a.b-c_~/login').expect(400, 'Malformed JSON')
    await post('/log.out').expect(400, 'Malformed JSON')
    await post('/aXb-c_~/login').expect(400, 'the host says')
    await post('/auth').expect(400, 'the host says')
  })

  it('on a path of ours is RFC 9457 for a client that asks for it', async () => {
    const { app } = await testApp({}, hostWith(express.json()))
    const response = await request(app)
      .post('/auth')
      .set('Accept', 'application/problem+json')
      .type('application/json')
      .send('{"did":')
    expect(response.body).toEqual({ type: 'about:blank', title: 'Malformed JSON', status: 400, code: 'ERR_JSON' })
  })

  it('on a path of ours is 413 in our words, when it is larger than the host allows', async () => {
    const { app } = await testApp({}, hostWith(express.json({ limit: 100 })))
    const response = await request(app)
      .post('/signup')
      .send({ did: 'a'.repeat(100) })
    expect([response.status, response.text]).toEqual([413, 'Request too large'])
  })

  it.each([
    ['an unknown encoding', { 'Content-Encoding': 'garbage' }],
    ['an unknown charset', { 'Content-Type': 'application/json; charset=garbage' }]
  ])('on a path of ours is 400 for %s', async (_name, headers) => {
    const { app } = await testApp({}, hostWith(express.json()))
    const response = await request(app).post('/auth').type('application/json').set(headers).send('{}')
    expect([response.status, response.text]).toEqual([400, 'Malformed JSON'])
  })

  it('on a path of ours is 400 for what the verify function of the host refuses', async () => {
    const verify = (): never => {
      throw new Error('not signed')
    }
    const { app } = await testApp({}, hostWith(express.json({ verify })))
    const response = await request(app)
      .post('/auth')
      .send({ did: walletOf(1).did })
    expect([response.status, response.text]).toEqual([400, 'Malformed JSON'])
  })

  it.each([
    ['entity.parse.failed', 400],
    ['encoding.unsupported', 400],
    ['charset.unsupported', 400],
    ['request.aborted', 400],
    ['request.size.invalid', 400],
    ['entity.verify.failed', 400],
    ['entity.too.large', 413]
  ])('on a path of ours by the type %s is %d', async (type, status) => {
    const { app } = await testApp({}, failingWith(Object.assign(new Error('of a parser'), { type })))
    expect((await request(app).post('/auth')).status).toBe(status)
    expect((await request(app).get(`/request-auth/${walletOf(1).did}`)).status).toBe(status)
  })

  it.each(['/', '/authx', '/request-auth/a/b'])("on a path of the host is the host's to answer: %s", async (path) => {
    const { app } = await testApp({}, hostWith(express.json()))
    await request(app).post(path).type('application/json').send('{').expect(400, 'the host says')
  })

  it.each([
    ['another type', Object.assign(new Error('x'), { type: 'parameters.too.many' })],
    ['no type', new Error('x')],
    ['no object', 'x'],
    ['a type of an array', { type: ['entity.parse.failed'] }]
  ])("and any other error is the host's to answer: %s", async (_name, error) => {
    const { app } = await testApp({}, failingWith(error))
    await request(app).post('/auth').expect(500, 'the host says')
  })
})
