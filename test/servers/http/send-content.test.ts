import { afterEach, describe, expect, it, jest } from '@jest/globals'
import fc from 'fast-check'
import { once } from 'node:events'
import {
  createServer,
  get,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse
} from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { escapeJson } from '../../../servers/http/json-string.js'
import { sendContent, type JsonAnswer } from '../../../servers/http/send-content.js'

const PIECE_BYTES = 262_144

let server: Server | undefined

afterEach(() => {
  jest.useRealTimers()
  server?.close()
  server?.closeAllConnections()
})

async function start(listener: RequestListener): Promise<number> {
  server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

/** Serves one answer, or the message of what it throws. */
const serving = (answer: () => JsonAnswer, headers?: Record<string, string>): Promise<number> =>
  start((req, res) => {
    sendContent(req, res, answer(), headers).catch((error: unknown) => {
      res.writeHead(500).end((error as Error).message)
    })
  })

async function ask(
  port: number,
  method = 'GET'
): Promise<{ status: number; text: string; headers: IncomingMessage['headers'] }> {
  const req = get({ port, host: '127.0.0.1', method, agent: false })
  const [res] = (await once(req, 'response')) as [IncomingMessage]
  const chunks: Buffer[] = []
  for await (const chunk of res) chunks.push(chunk as Buffer)
  return { status: res.statusCode!, text: Buffer.concat(chunks).toString(), headers: res.headers }
}

/** Cuts bytes into pieces. */
async function* cut(bytes: Uint8Array, length: number): AsyncGenerator<Uint8Array> {
  for (let start = 0; start < bytes.length; start += length) yield bytes.subarray(start, start + length)
}

const answerOf = (text: string, pieceLength: number): JsonAnswer => ({
  byteCount: 9 + Buffer.byteLength(JSON.stringify(text)),
  parts: ['{"file":', cut(Buffer.from(text), pieceLength), '}']
})

describe('escapeJson', () => {
  it('escapes pieces as JSON.stringify escapes the whole, also where a character is cut', () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }).filter((one) => one.isWellFormed()),
      fc.string({ unit: 'grapheme', minLength: 60, maxLength: 300 })
    )
    fc.assert(
      fc.property(text, fc.integer({ min: 1, max: 90 }), (whole, length) => {
        const bytes = Buffer.from(whole)
        const pieces: Uint8Array[] = []
        for (let start = 0; start < bytes.length; start += length)
          pieces.push(escapeJson(bytes.subarray(start, start + length)))
        expect(`"${Buffer.concat(pieces).toString()}"`).toBe(JSON.stringify(whole))
      }),
      { numRuns: 500 }
    )
  })
})

describe('sendContent', () => {
  it.each([
    ['nothing', '', 1],
    ['a short text', 'é€😀"\n\u0001', 1],
    ['a long text', 'é€😀"\n\u0001'.repeat(100_000), PIECE_BYTES],
    ['a long text in short pieces', 'é€😀"\n\u0001'.repeat(20_000), 1_001]
  ])('sends %s with its length', async (_what, text, pieceLength) => {
    const port = await serving(() => answerOf(text, pieceLength), { 'Cache-Control': 'no-store' })
    const { status, text: json, headers } = await ask(port)
    expect([status, json === JSON.stringify({ file: text })]).toEqual([200, true])
    expect(headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'content-length': String(Buffer.byteLength(json)),
      'cache-control': 'no-store'
    })
  })

  it('sends a list of 10,000 texts', async () => {
    const texts = Array.from({ length: 10_000 }, (_, index) => `entry ${index} "€"`)
    const json = JSON.stringify(texts)
    function* parts() {
      for (const [index, text] of texts.entries()) yield* [index === 0 ? '[' : ',', [Buffer.from(text)]]
      yield ']'
    }
    const port = await serving(() => ({ byteCount: Buffer.byteLength(json), parts: parts() }))
    expect((await ask(port)).text).toBe(json)
  })

  it('answers HEAD with the headers, and reads nothing', async () => {
    let read = 0
    async function* pieces() {
      read += 1
      yield Buffer.from('never')
    }
    const port = await serving(() => ({ byteCount: 7, parts: [pieces()] }))
    const { text, headers } = await ask(port, 'HEAD')
    expect([text, headers['content-length'], read]).toEqual(['', '7', 0])
  })

  it('throws what fails before the first bytes, so that it can be answered', async () => {
    async function* pieces(): AsyncGenerator<Uint8Array> {
      throw new Error('missing')
    }
    const port = await serving(() => ({ byteCount: 10, parts: ['{"file":', pieces(), '}'] }))
    expect(await ask(port)).toMatchObject({ status: 500, text: 'missing' })
  })

  it.each([
    ['the source fails later', 2 * PIECE_BYTES + 2, new Error('missing')],
    ['there is less than was promised', 3 * PIECE_BYTES, undefined],
    ['there is more than was promised', PIECE_BYTES + 10, undefined]
  ])('breaks the connection when %s', async (_what, byteCount, error) => {
    async function* pieces() {
      yield Buffer.alloc(PIECE_BYTES, 97)
      if (error !== undefined) throw error
      yield Buffer.alloc(PIECE_BYTES, 97)
    }
    const port = await serving(() => ({ byteCount, parts: [pieces()] }))
    await expect(ask(port)).rejects.toThrow('aborted')
  })

  describe('with a client that does not read', () => {
    let pulled = 0
    let isClosed = false
    async function* endless() {
      try {
        for (;;) {
          pulled += 1
          yield Buffer.alloc(PIECE_BYTES, 97)
        }
      } finally {
        isClosed = true
      }
    }

    /** Resolves when the answer no longer gets on. */
    async function stalled(): Promise<{ client: Socket; res: ServerResponse }> {
      pulled = 0
      isClosed = false
      let response: ServerResponse | undefined
      const port = await start((req, res) => {
        response = res
        void sendContent(req, res, { byteCount: 2 ** 40, parts: [endless()] })
      })
      const client = connect(port, '127.0.0.1').pause()
      client.on('error', () => undefined)
      client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      for (let still = 0, before = 0; still < 200; still += 1) {
        await new Promise(setImmediate)
        if (pulled === 0 || pulled !== before) still = 0
        before = pulled
      }
      return { client, res: response! }
    }

    it('holds one piece beside what the system has taken', async () => {
      const { client, res } = await stalled()
      expect(pulled * PIECE_BYTES - res.socket!.bytesWritten).toBeLessThanOrEqual(PIECE_BYTES)
      client.destroy()
    })

    it('closes the source when the client disconnects', async () => {
      const { client } = await stalled()
      client.destroy()
      while (!isClosed) await new Promise(setImmediate)
      expect(isClosed).toBe(true)
    })

    it('closes the connection below the minimum data rate: 120 s after what was read faster', async () => {
      jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] })
      const { res } = await stalled()
      jest.advanceTimersByTime(119_000)
      expect(res.destroyed).toBe(false)
      jest.advanceTimersByTime(2_000)
      expect(res.destroyed).toBe(true)
      while (!isClosed) await new Promise(setImmediate)
    })
  })
})
