import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { EventEmitter, once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { PassThrough, Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import type { Express, Request } from 'express'
import { memoryStore } from 'express-did-auth'
import request from 'supertest'
import { ExpressRequest } from '../../src/express/express-routes.js'
import { readBody, readLogin, readSignUp } from '../../src/http/read-request.js'
import { signedLogin, signUpChallenge } from '../support/servers/app-client.js'
import { refusal } from '../support/fixtures/refusal.js'
import { createAccount, createSignedSiwe } from '../support/fixtures/siwe.js'
import { testApp } from '../support/servers/test-app.js'
import { createLoginText, createNumberedWallet } from '../support/fixtures/fixtures.js'

const MAX_BODY_BYTES = 16 * 1024
const { did } = createNumberedWallet(1)
const GOOD = JSON.stringify({ did })
const JSON_TYPE = { 'content-type': 'application/json' }
const REAL = ['nextTick', 'setImmediate', 'queueMicrotask', 'Date', 'performance', 'hrtime'] as const

/** Creates a request with a body that arrives in chunks, or that the application has parsed. */
const createRequest = (stream: Readable, headers: object, body?: unknown) =>
  new ExpressRequest(Object.assign(stream, { headers, body }) as unknown as Request)
const read = (text: string | Buffer, headers: object = JSON_TYPE) =>
  readBody(createRequest(Readable.from([Buffer.from(text)]), headers), MAX_BODY_BYTES)
const createGiven = (body: unknown, type: string | undefined = 'application/json') =>
  createRequest(Readable.from([]), { 'content-type': type }, body)
const readGiven = (body: unknown, type?: string) => readBody(createGiven(body, type), MAX_BODY_BYTES)
const readLoginOf = (body: unknown) => readLogin(createGiven(body))
const readSignUpOf = (body: unknown) => readSignUp(createGiven(body), MAX_BODY_BYTES)

describe('the request body', () => {
  it.each([
    'application/json',
    'APPLICATION/JSON',
    'application/json; charset=utf-8',
    'application/json;charset="UTF-8"',
    'application/json ; charset=utf-8',
    'application/vnd.api+json',
    'application/problem+json; charset=utf-8'
  ])('is read if its type is %s', async (type) => {
    expect(await read(GOOD, { 'content-type': type })).toEqual({ did })
  })

  it.each([
    undefined,
    'text/plain',
    'text/json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=a',
    'application/jsonx',
    'application/json5',
    'xapplication/json',
    'application/javascript',
    'application/octet-stream',
    'json',
    ';',
    'application/ json'
  ])('counts as empty if its type is %s', async (type) => {
    expect(await read(GOOD, { 'content-type': type })).toEqual({})
  })

  it.each([
    ['an empty one', ''],
    ['a number', '7'],
    ['a string', '"did:web:a"'],
    ['null', 'null'],
    ['an array', `[${GOOD}]`],
    ['an array nested 8,000 deep', '['.repeat(8000) + ']'.repeat(8000)]
  ])('counts as empty if it is %s', async (_name, body) => {
    expect(await read(body)).toEqual({})
  })

  it.each([
    ['blanks around', `\r\n\t ${GOOD}\n`],
    ['a byte order mark', `\uFEFF${GOOD}`],
    ['a name twice, the last counts', `{"did":7,"did":"${did}"}`],
    ['escapes', `{"\\u0064id":"${did}"}`]
  ])('is read if it has %s', async (_name, body) => {
    expect(await read(body)).toEqual({ did })
  })

  it.each<[string, string | Buffer]>([
    ['half an object', '{"did":'],
    ['two objects', '{}{}'],
    ['NaN', '{"did":NaN}'],
    ['blanks only', '   '],
    ['a form', 'did=a'],
    ['an array without an end, 8,000 deep', '['.repeat(8000)],
    ['a byte that is no UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
    ['an overlong UTF-8 sequence', Buffer.from([0x22, 0xc0, 0xaf, 0x22])],
    ['half a UTF-8 character', Buffer.from([0x22, 0xe2, 0x82])],
    ['UTF-16', Buffer.from(GOOD, 'utf16le')],
    ['compressed: nothing here inflates what a stranger sends', gzipSync(GOOD)]
  ])('is malformed if it is %s', (_name, body) => expect(read(body)).rejects.toEqual(refusal('ERR_JSON')))

  it('may arrive in many chunks that split a character', async () => {
    const chunks = Array.from(Buffer.from(JSON.stringify({ name: '€' })), (byte) => Buffer.from([byte]))
    const body = readBody(createRequest(Readable.from(chunks), JSON_TYPE), MAX_BODY_BYTES)
    expect(await body).toEqual({ name: '€' })
  })

  it('may have 16 KiB, and is too large with one byte more, announced or not', async () => {
    const padded = (bytes: number) => GOOD + ' '.repeat(bytes - GOOD.length)
    for (const said of [false, true]) {
      const headers = (bytes: number) => ({ ...JSON_TYPE, ...(said && { 'content-length': String(bytes) }) })
      expect(await read(padded(16_384), headers(16_384))).toEqual({ did })
      await expect(read(padded(16_385), headers(16_385))).rejects.toEqual(refusal('ERR_TOO_LARGE'))
    }
  })
})

describe('a body that the host has parsed', () => {
  it.each<[unknown, string | undefined]>([
    [{ did }, undefined],
    [{ did }, 'application/vnd.api+json'],
    [GOOD, 'application/json'],
    [Buffer.from(GOOD), 'application/json']
  ])('is used: %j with type %s', async (body, type) => {
    expect(await readGiven(body, type)).toEqual({ did })
  })

  it.each<[unknown, string | undefined]>([
    ...[7, null, [{ did }], '', Buffer.alloc(0)].map((body): [unknown, string] => [body, 'application/json']),
    [GOOD, 'text/plain'],
    [{ did }, 'application/x-www-form-urlencoded'],
    [{ did }, 'Application/X-WWW-Form-Urlencoded; a=b'],
    [{ did }, 'multipart/form-data; boundary=a']
  ])('counts as empty: %j with type %s', async (body, type) => {
    expect(await readGiven(body, type)).toEqual({})
  })

  it('is too large as text or bytes above 16 KiB', async () => {
    for (const body of [' '.repeat(16_385), Buffer.alloc(16_385)]) {
      await expect(readGiven(body)).rejects.toEqual(refusal('ERR_TOO_LARGE'))
    }
  })
})

describe('a body that does not arrive', () => {
  beforeEach(() => {
    jest.useFakeTimers({ doNotFake: [...REAL] })
  })
  afterEach(() => {
    jest.useRealTimers()
  })
  const waiting = () => {
    const stream = new PassThrough()
    const body = readBody(createRequest(stream, JSON_TYPE), MAX_BODY_BYTES)
    const outcome = body.catch((error: unknown) => (error as { code: string }).code)
    return { stream, outcome }
  }

  // Cause: a connection that announced a body and sent none stayed open for five minutes, Node's own limit.
  it('is refused after 30 s and not before, even if it arrives byte by byte', async () => {
    const { stream, outcome } = waiting()
    let hasEnded = false
    void outcome.then(() => (hasEnded = true))
    for (let second = 0; second < 29; second += 1) {
      stream.write(GOOD[second])
      await jest.advanceTimersByTimeAsync(1_000)
    }
    await jest.advanceTimersByTimeAsync(999)
    expect(hasEnded).toBe(false)
    await jest.advanceTimersByTimeAsync(1)
    expect(await outcome).toBe('ERR_REQUEST_TIMEOUT')
  })

  it('leaves no timer running if it arrives in time, or if its client disconnects', async () => {
    for (const [end, expected] of [
      [(stream: PassThrough) => stream.end(GOOD), { did }],
      [(stream: PassThrough) => stream.destroy(), 'ERR_JSON']
    ] as const) {
      const { stream, outcome } = waiting()
      await jest.advanceTimersByTimeAsync(29_999)
      expect(jest.getTimerCount()).toBe(1)
      end(stream)
      expect(await outcome).toEqual(expected)
      expect(jest.getTimerCount()).toBe(0)
    }
  })
})

/** Gives a test a connection to an application, and a promise of its close at the server. */
async function connected<T>(app: Express, use: (socket: Socket, closed: Promise<void>) => Promise<T>): Promise<T> {
  const server = createServer(app)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const closed = new Promise<void>((resolve) => {
    server.on('connection', (one: Socket) => one.on('close', () => setImmediate(resolve)))
  })
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  try {
    return await use(socket, closed)
  } finally {
    socket.destroy()
    server.closeAllConnections()
    server.close()
  }
}

describe('a body over a connection', () => {
  const head = (path: string) => `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n`

  it('gets 408 if it does not arrive, and the connection is closed', async () => {
    let arrive: () => void = () => undefined
    const arrived = new Promise<void>((resolve) => (arrive = resolve))
    const { app } = await testApp(
      {},
      {
        before: (host) =>
          host.use((_req, _res, next) => {
            next()
            arrive()
          })
      }
    )
    jest.useFakeTimers({ doNotFake: [...REAL] })
    await connected(app, async (socket, closed) => {
      let text = ''
      socket.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      socket.write(`${head('/request-auth')}Content-Length: 9\r\n\r\n`)
      await arrived
      await jest.advanceTimersByTimeAsync(30_000)
      await closed
      expect(text).toMatch(
        /^HTTP\/1.1 408 Request Timeout\r\n(.*\r\n)*Connection: close\r\n(.*\r\n)*\r\nRequest timeout$/i
      )
    }).finally(() => jest.useRealTimers())
  })

  // Cause: the 10 s of a login began before its body was read, so that a slow body with a valid signature got 503
  // ERR_STORE.
  it('leaves a login its full time if the body takes 12 s', async () => {
    const reading = new EventEmitter()
    const { app } = await testApp(
      { store: memoryStore(), siwe: true },
      {
        before: (host) =>
          host.use((req, _res, next) => {
            req.once('resume', () => reading.emit('body'))
            next()
          })
      }
    )
    const signUp = async () => ({
      did,
      sig: createNumberedWallet(1).personalSign(createLoginText('service.example', await signUpChallenge(app, did)))
    })
    const bodies = [
      ['/auth', await signedLogin(app, createNumberedWallet(2))],
      ['/signup', await signUp()],
      ['/siwe/verify', await createSignedSiwe(app, createAccount(3))]
    ] as const
    const now = performance.now.bind(performance)
    for (const [path, body] of bodies) {
      const text = JSON.stringify(body)
      await connected(app, async (socket) => {
        socket.write(`${head(path)}Content-Length: ${String(text.length)}\r\n\r\n`)
        await once(reading, 'body')
        const clock = jest.spyOn(performance, 'now').mockImplementation(() => now() + 12_000)
        socket.write(text)
        const [answer] = (await once(socket, 'data')) as [Buffer]
        expect([path, answer.toString().slice(9, 12)]).toEqual([path, '200'])
        clock.mockRestore()
      })
    }
  })

  // Cause: a chunk after the response set a header again, and the uncaught error ended the process.
  it('gets 413 before it has ended, however many chunks follow, so that memory stays bounded', async () => {
    const { app, log, logIn } = await testApp()
    await connected(app, async (socket, closed) => {
      const chunk = `5000\r\n${'x'.repeat(0x5000)}\r\n`
      socket.write(`${head('/request-auth')}Transfer-Encoding: chunked\r\n\r\n${chunk}`)
      const [answer] = (await once(socket, 'data')) as [Buffer]
      expect(answer.toString()).toMatch(/^HTTP\/1.1 413 /)
      for (let count = 0; count < 100; count += 1) socket.write(chunk)
      socket.end('0\r\n\r\n')
      await closed
    })
    expect(log.map(({ fields }) => fields.code)).toEqual(['ERR_TOO_LARGE'])
    await logIn()
  })

  it('keeps the connection usable for the next request after a 413', async () => {
    const { app } = await testApp()
    const server = createServer(app).listen(0)
    const agent = request.agent(server)
    await agent
      .post('/request-auth')
      .send({ did: 'a'.repeat(100_000) })
      .expect(413)
    await agent.post('/request-auth').send({ did }).expect(200)
    server.close()
  })

  it('is read if the host has paused it for a lookup', async () => {
    const { post } = await testApp(
      {},
      {
        before: (host) =>
          host.use((req, _res, next) => {
            req.pause()
            setImmediate(next)
          })
      }
    )
    await post('/request-auth', { did }).expect(200)
  })

  it.each([
    ['in the middle of it', 'Content-Length: 100\r\n\r\n{"did":'],
    ['in the middle of a chunk', 'Transfer-Encoding: chunked\r\n\r\nff\r\n{"did":'],
    ['before it', 'Content-Length: 100\r\n\r\n'],
    ['after too much of it', `Transfer-Encoding: chunked\r\n\r\nffff\r\n${'x'.repeat(0x8000)}`]
  ])('leaves no log line, and the service running, if its client disconnects %s', async (_name, text) => {
    const { app, log, logIn } = await testApp()
    await connected(app, async (socket, closed) => {
      socket.write(head('/auth') + text, () => setImmediate(() => socket.destroy()))
      await closed
    })
    // The 413 was sent before the client disconnected.
    expect(log.filter(({ fields }) => fields.code !== 'ERR_TOO_LARGE')).toEqual([])
    await logIn()
  })

  it('has no effect on the service if its client disconnects before the response', async () => {
    let asked: () => void = () => undefined
    let answer: () => void = () => undefined
    const isAsked = new Promise<void>((resolve) => (asked = resolve))
    const authenticationBusinessLogic = () => {
      asked()
      return new Promise<void>((resolve) => (answer = resolve))
    }
    const { app, log, createSignedLogin } = await testApp({ authenticationBusinessLogic })
    const body = JSON.stringify(await createSignedLogin())
    await connected(app, async (socket, closed) => {
      socket.write(`${head('/auth')}Content-Length: ${String(body.length)}\r\n\r\n${body}`)
      await isAsked
      socket.destroy()
      await closed
      answer()
      await new Promise((resolve) => setImmediate(resolve))
    })
    expect(log).toEqual([])
  })
})

describe('the fields of a login and a sign-up', () => {
  const sig = '0x'
  const login = { did, sig }

  it.each([
    ['both forms at once', { ...login, response: login }],
    ['a form and a stray did', { did, response: login }],
    ['a form and a stray sig', { sig, response: login }],
    ['a form and stray credentials', { credentials: [], response: login }],
    ['a form and stray claims', { claims: [], response: login }],
    ['a response that is a string', { response: JSON.stringify(login) }],
    ['a response that is an array', { response: [login] }],
    ['a response that is null', { response: null }]
  ])('are refused as %s', async (_name, body) => {
    await expect(readLoginOf(body)).rejects.toThrow(refusal('ERR_REQUEST'))
    await expect(readSignUpOf(body)).rejects.toThrow(refusal('ERR_REQUEST'))
  })

  it.each([
    ['strange names next to it', JSON.parse(`{"__proto__":1,"constructor":2,"toString":3,"did":"${did}"}`), did],
    ['__proto__', JSON.parse(`{"__proto__":${GOOD}}`), undefined],
    ['constructor.prototype', { constructor: { prototype: login } }, undefined],
    ['another name', { DID: did, 'did ': did }, undefined],
    ['a number beyond all bounds', JSON.parse('{"did":1e999}'), undefined]
  ])('are read only from own properties: %s', async (_name, body, expected) => {
    if (expected === undefined) await expect(readLoginOf(body)).rejects.toThrow(refusal('ERR_DID'))
    else expect((await readLoginOf(body)).did).toBe(expected)
    expect(({} as { did?: unknown }).did).toBeUndefined()
  })

  it.each([
    ['credentials that are a string', { credentials: 'a.b.c' }],
    ['claims that are an object', { claims: {} }]
  ])('cause a refusal of a sign-up with %s', async (_name, fields) => {
    await expect(readSignUpOf({ ...login, ...fields })).rejects.toThrow(refusal('ERR_REQUEST'))
    await expect(readSignUpOf({ response: { ...login, ...fields } })).rejects.toThrow(refusal('ERR_REQUEST'))
  })

  it('are the same in both forms', async () => {
    const disclosed = { credentials: ['a.b.c'], claims: [{ claimType: 'name', claimValue: 'Jane' }] }
    const expected = { ...login, credentialJwts: disclosed.credentials, claims: disclosed.claims }
    for (const body of [{ ...login, ...disclosed }, { response: { ...login, ...disclosed } }]) {
      expect([await readLoginOf(body), await readSignUpOf(body)]).toEqual([login, expected])
    }
  })
})
