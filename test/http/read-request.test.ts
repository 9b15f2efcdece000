import { describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import { createServer, request as httpRequest, type Server } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import type { Express } from 'express'
import request from 'supertest'
import { logIn, signedLogin } from '../support/app-client.js'
import { testApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const DID = wallet.did
const GOOD = JSON.stringify({ did: DID })

/** Posts bytes as they are, chunk by chunk, and answers status and text. */
function post(app: Express, headers: Record<string, string>, ...chunks: (string | Buffer)[]) {
  return serving(app, (server) => {
    const { port } = server.address() as AddressInfo
    return new Promise<[number | undefined, string]>((resolve, reject) => {
      const sent = httpRequest({ port, path: '/request-auth', method: 'POST', headers }, (response) => {
        let text = ''
        response.setEncoding('utf8').on('data', (part: string) => (text += part))
        response.on('end', () => {
          resolve([response.statusCode, text])
        })
      })
      sent.on('error', reject)
      for (const chunk of chunks) sent.write(chunk)
      sent.end()
    })
  })
}

async function serving<T>(app: Express, use: (server: Server) => Promise<T>): Promise<T> {
  const server = createServer(app)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    return await use(server)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

const JSON_TYPE = { 'Content-Type': 'application/json' }
const OK = [200, expect.stringContaining('"challenge"')]
const NO_DID = [401, 'Invalid DID']
const MALFORMED = [400, 'Malformed JSON']
const TOO_LARGE = [413, 'Request too large']

describe('a body', () => {
  it.each([
    'application/json',
    'APPLICATION/JSON',
    'application/json; charset=utf-8',
    'application/json;charset="UTF-8"',
    'application/json ; charset=utf-8',
    'application/vnd.api+json',
    'application/problem+json; charset=utf-8'
  ])('of type %s is read', async (type) => {
    const { app } = await testApp()
    expect(await post(app, { 'Content-Type': type }, GOOD)).toEqual(OK)
  })

  it.each([
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
  ])('of type %s counts as empty', async (type) => {
    const { app } = await testApp()
    expect(await post(app, { 'Content-Type': type }, GOOD)).toEqual(NO_DID)
  })

  it('without a type counts as empty', async () => {
    const { app } = await testApp()
    expect(await post(app, {}, GOOD)).toEqual(NO_DID)
  })

  it.each([
    ['an empty one', ''],
    ['an empty object', '{}'],
    ['a number', '7'],
    ['a string', '"did:web:a"'],
    ['true', 'true'],
    ['null', 'null'],
    ['an array', `[${GOOD}]`],
    ['an array nested 8,000 deep', '['.repeat(8000) + ']'.repeat(8000)],
    ['an object nested 2,000 deep', '{"a":'.repeat(2000) + '1' + '}'.repeat(2000)],
    ['a DID in __proto__', `{"__proto__":${GOOD}}`],
    ['a DID in constructor.prototype', `{"constructor":{"prototype":${GOOD}}}`],
    ['a DID under another name', JSON.stringify({ DID, 'did ': DID })],
    ['a number beyond all bounds', '{"did":1e999}']
  ])('that is %s holds no DID: 401', async (_name, body) => {
    const { app } = await testApp()
    expect(await post(app, JSON_TYPE, body)).toEqual(NO_DID)
    expect(({} as { did?: unknown }).did).toBeUndefined()
  })

  it.each([
    ['blanks around', `\r\n\t ${GOOD}\n`],
    ['a byte order mark', `\uFEFF${GOOD}`],
    ['a name twice, the last counts', `{"did":7,"did":"${DID}"}`],
    ['escapes', `{"\\u0064id":"${DID}"}`],
    ['strange names beside', `{"__proto__":1,"constructor":2,"toString":3,"did":"${DID}"}`]
  ])('with %s is read', async (_name, body) => {
    const { app } = await testApp()
    expect(await post(app, JSON_TYPE, body)).toEqual(OK)
  })

  it.each<[string, string | Buffer]>([
    ['half an object', '{"did":'],
    ['two objects', '{}{}'],
    ['single quotes', "{'did':'a'}"],
    ['a comma at the end', '{"did":"a",}'],
    ['a comment', '{} // comment'],
    ['NaN', '{"did":NaN}'],
    ['blanks only', '   '],
    ['a form', 'did=a'],
    ['a raw line feed in a string', '{"did":"a\n"}'],
    ['an array without an end, 8,000 deep', '['.repeat(8000)],
    ['a byte that is no UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
    ['an overlong UTF-8 sequence', Buffer.from([0x22, 0xc0, 0xaf, 0x22])],
    ['half a UTF-8 character', Buffer.from([0x22, 0xe2, 0x82])],
    ['UTF-16', Buffer.from(GOOD, 'utf16le')],
    ['bytes of zero', Buffer.alloc(10)]
  ])('that is %s is 400', async (_name, body) => {
    const { app } = await testApp()
    expect(await post(app, JSON_TYPE, body)).toEqual(MALFORMED)
  })

  it('that is compressed is 400: nothing here inflates what a stranger sends', async () => {
    const { app } = await testApp()
    const body = gzipSync(GOOD)
    expect(await post(app, { ...JSON_TYPE, 'Content-Encoding': 'gzip' }, body)).toEqual(MALFORMED)
  })

  it('may come in many chunks, cut within a character', async () => {
    const { app } = await testApp()
    const bytes = Buffer.from(JSON.stringify({ name: '€', did: DID }))
    const chunks = Array.from(bytes, (byte) => Buffer.from([byte]))
    expect(await post(app, JSON_TYPE, ...chunks)).toEqual(OK)
  })

  it('may have 16 KiB, and is 413 with one byte more', async () => {
    const { app } = await testApp()
    const body = (bytes: number) => GOOD + ' '.repeat(bytes - GOOD.length)
    expect(await post(app, { ...JSON_TYPE, 'Content-Length': '16384' }, body(16384))).toEqual(OK)
    expect(await post(app, { ...JSON_TYPE, 'Content-Length': '16385' }, body(16385))).toEqual(TOO_LARGE)
  })

  // A chunk after the answer once set a header again, where no one catches what it threw: the process ended.
  it('is 413 in chunks as well, however many come after the answer', async () => {
    const { app, log } = await testApp()
    const chunks = Array<string>(200).fill('x'.repeat(8192))
    expect(await post(app, JSON_TYPE, ...chunks)).toEqual(TOO_LARGE)
    expect(log.map(({ fields }) => fields.code)).toEqual(['ERR_TOO_LARGE'])
    await logIn(app, wallet)
  })

  it('is 413 before it has ended, so that no one fills the memory', async () => {
    const { app } = await testApp()
    await serving(app, async (server) => {
      const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
      const head = 'POST /request-auth HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n'
      socket.write(`${head}Transfer-Encoding: chunked\r\n\r\n5000\r\n${'x'.repeat(0x5000)}\r\n`)
      const [answer] = (await once(socket, 'data')) as [Buffer]
      expect(answer.toString()).toMatch(/^HTTP\/1.1 413 /)
      socket.destroy()
    })
  })

  it('that the host has paused, to look something up first, is read', async () => {
    const { app } = await testApp(
      {},
      {
        before: (host) =>
          host.use((req, _res, next) => {
            req.pause()
            setImmediate(next)
          })
      }
    )
    expect(await post(app, JSON_TYPE, GOOD)).toEqual(OK)
  })

  it('that is 413 leaves the connection good for the next request', async () => {
    const { app } = await testApp()
    await serving(app, async (server) => {
      const agent = request.agent(server)
      await agent
        .post('/request-auth')
        .send({ did: 'a'.repeat(100_000) })
        .expect(413)
      await agent.post('/request-auth').send({ did: DID }).expect(200)
    })
  })
})

describe('a client that goes away', () => {
  const head = 'POST /auth HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n'

  it.each([
    ['in the middle of a body', `${head}Content-Length: 100\r\n\r\n{"did":`],
    ['in the middle of a chunk', `${head}Transfer-Encoding: chunked\r\n\r\nff\r\n{"did":`],
    ['before its body', `${head}Content-Length: 100\r\n\r\n`],
    ['after a body that is too large', `${head}Transfer-Encoding: chunked\r\n\r\nffff\r\n${'x'.repeat(0x8000)}`]
  ])('%s leaves no trace in the log, and the service alive', async (_name, text) => {
    const { app, log } = await testApp()
    await serving(app, async (server) => {
      const arrived = new Promise<void>((resolve) => {
        server.on('connection', (socket: Socket) => socket.on('close', resolve))
      })
      const { port } = server.address() as AddressInfo
      const socket = connect(port, '127.0.0.1', () => {
        socket.write(text, () => setImmediate(() => socket.destroy()))
      })
      await arrived
      await new Promise((resolve) => setImmediate(resolve))
    })
    // Too large: it was answered before the client went.
    expect(log.filter(({ fields }) => fields.code !== 'ERR_TOO_LARGE')).toEqual([])
    await logIn(app, wallet)
  })

  it('before the answer does no harm either', async () => {
    let asked: () => void = () => undefined
    let answer: () => void = () => undefined
    const isAsked = new Promise<void>((resolve) => (asked = resolve))
    const { app, log } = await testApp({
      authenticationBusinessLogic: () => {
        asked()
        return new Promise<void>((resolve) => (answer = resolve))
      }
    })
    const body = JSON.stringify(await signedLogin(app, wallet))
    await serving(app, async (server) => {
      const closed = new Promise<void>((resolve) => {
        server.on('connection', (socket: Socket) => socket.on('close', resolve))
      })
      const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
      socket.write(`${head}Content-Length: ${String(body.length)}\r\n\r\n${body}`)
      await isAsked
      socket.destroy()
      await closed
      answer()
      await new Promise((resolve) => setImmediate(resolve))
    })
    expect(log).toEqual([])
  })
})
