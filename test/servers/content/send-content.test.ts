import { afterEach, describe, expect, it, jest } from '@jest/globals'
import fc from 'fast-check'
import { once } from 'node:events'
import { get, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { encodeJsonString, sendChunks, sendWhole } from '../../../servers/content/send-content.js'
import { closeServices, servingPort } from '../../support/servers/server-client.js'
import { sampled } from '../../support/fixtures/time-factor.js'
import { until } from '../../support/fixtures/until.js'

const PIECE_BYTES = 262_144

afterEach(() => {
  jest.useRealTimers()
  closeServices()
})

/** Serves one response, or 500 with the message of its error. */
const serveChunks = (chunks: () => AsyncGenerator<Uint8Array>, headers?: Record<string, string>): Promise<number> =>
  servingPort((_req, res) => {
    sendChunks(res, chunks(), headers).catch((error: unknown) => {
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

/** Cuts bytes into pieces of `length` bytes. */
async function* cut(bytes: Uint8Array, length: number): AsyncGenerator<Uint8Array> {
  for (let start = 0; start < bytes.length; start += length) yield bytes.subarray(start, start + length)
}

describe('encodeJsonString', () =>
  it('encodes pieces as JSON.stringify encodes the whole text, also where a character is cut', async () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }).filter((string) => string.isWellFormed()),
      fc.string({ unit: 'grapheme', minLength: 60, maxLength: 300 }),
      fc.constantFrom('', '\ufeff', '\ufeffa')
    )
    await fc.assert(
      fc.asyncProperty(text, fc.integer({ min: 1, max: 90 }), async (whole, length) => {
        const pieces: Uint8Array[] = []
        for await (const piece of encodeJsonString(cut(Buffer.from(whole), length), '[', ']')) pieces.push(piece)
        expect(Buffer.concat(pieces).toString()).toBe(JSON.stringify([whole]))
      }),
      { numRuns: sampled(60, 500) }
    )
  }))

describe('sendWhole', () => {
  it.each(['GET', 'HEAD'])('sends a text and its length in response to %s', async (method) => {
    let isSent = false
    const port = await servingPort((_req, res) =>
      sendWhole(res, '"é"', { 'Cache-Control': 'no-store' }, () => (isSent = true))
    )
    const { status, text, headers } = await ask(port, method)
    expect([status, text, isSent]).toEqual([200, method === 'GET' ? '"é"' : '', true])
    expect(headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'content-length': '4',
      'cache-control': 'no-store'
    })
  })

  it('closes the connection after 5 s plus the time that the body takes at 4 KiB/s', async () => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] })
    let response: ServerResponse | undefined
    let isEnded = false
    const port = await servingPort((_req, res) => {
      response = res
      sendWhole(res, Buffer.alloc(40_960_000), {}, () => (isEnded = true))
    })
    const client = connect(port, '127.0.0.1').pause()
    client.on('error', () => undefined)
    client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(() => response !== undefined)
    jest.advanceTimersByTime(10_004_000)
    expect([response?.destroyed, isEnded]).toEqual([false, false])
    jest.advanceTimersByTime(2_000)
    await until(() => isEnded)
    expect(response?.destroyed).toBe(true)
    client.destroy()
  })
})

describe('sendChunks', () => {
  it.each([
    ['an empty text', '', 1],
    ['a short text', 'é€😀"\n\u0001', 1],
    ['a long text', 'é€😀"\n\u0001'.repeat(100_000), PIECE_BYTES],
    ['a long text in short pieces', 'é€😀"\n\u0001'.repeat(20_000), 1_001]
  ])('sends %s', async (_what, text, pieceLength) => {
    const createChunks = () => encodeJsonString(cut(Buffer.from(text), pieceLength), '{"file":', '}')
    const port = await serveChunks(createChunks, { 'Cache-Control': 'no-store' })
    const { status, text: json, headers } = await ask(port)
    expect([status, json === JSON.stringify({ file: text })]).toEqual([200, true])
    expect(headers).toMatchObject({ 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' })
  })

  it('answers HEAD with the headers, reads at most one piece, and closes the source', async () => {
    const events: string[] = []
    async function* yieldPieces() {
      try {
        yield Buffer.from('first')
        events.push('read on')
      } finally {
        events.push('closed')
      }
    }
    const { status, text } = await ask(await serveChunks(() => encodeJsonString(yieldPieces())), 'HEAD')
    expect([status, text, events]).toEqual([200, '', ['closed']])
  })

  it.each([
    ['the next chunk', ['[1', ',2]']],
    ['the end', ['[1']]
  ])(
    'ends and closes the source when the client disconnects during the wait for %s',
    async (_what, [first, ...laterChunks]) => {
      let closed = 0
      let sending: Promise<void> | undefined
      async function* yieldPieces(disconnected: Promise<unknown>) {
        try {
          yield Buffer.from(first!)
          await disconnected
          for (const chunk of laterChunks) yield Buffer.from(chunk)
        } finally {
          closed += 1
        }
      }
      const port = await servingPort((_req, res) => {
        sending = sendChunks(res, yieldPieces(once(res, 'close')))
      })
      const req = get({ port, host: '127.0.0.1', agent: false })
      const [answer] = (await once(req, 'response')) as [IncomingMessage]
      answer.on('error', () => undefined)
      req.destroy()
      await sending
      expect(closed).toBe(1)
    }
  )

  it('throws if the source fails before the first byte, so that the caller can answer', async () => {
    async function* yieldPieces(): AsyncGenerator<Uint8Array> {
      throw new Error('missing')
    }
    expect(await ask(await serveChunks(() => encodeJsonString(yieldPieces())))).toMatchObject({
      status: 500,
      text: 'missing'
    })
  })

  it('aborts the connection if the source fails later', async () => {
    async function* yieldPieces() {
      yield Buffer.alloc(PIECE_BYTES, 97)
      throw new Error('missing')
    }
    await expect(ask(await serveChunks(yieldPieces))).rejects.toThrow('aborted')
  })

  describe('when the client does not read', () => {
    let pulled = 0
    let isClosed = false
    async function* yieldEndlessly() {
      try {
        for (;;) {
          pulled += 1
          yield Buffer.alloc(PIECE_BYTES, 97)
        }
      } finally {
        isClosed = true
      }
    }

    /** Resolves when the response makes no more progress. */
    async function waitForStall(): Promise<{ client: Socket; res: ServerResponse }> {
      pulled = 0
      isClosed = false
      let response: ServerResponse | undefined
      const port = await servingPort((_req, res) => {
        response = res
        void sendChunks(res, yieldEndlessly())
      })
      const client = connect(port, '127.0.0.1').pause()
      client.on('error', () => undefined)
      client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      for (let quietTurns = 0, before = 0; quietTurns < 200; quietTurns += 1) {
        await new Promise(setImmediate)
        if (pulled === 0 || pulled !== before) quietTurns = 0
        before = pulled
      }
      return { client, res: response! }
    }

    it('buffers at most one piece in addition to what the socket accepted', async () => {
      const { client, res } = await waitForStall()
      expect(pulled * PIECE_BYTES - res.socket!.bytesWritten).toBeLessThanOrEqual(PIECE_BYTES)
      client.destroy()
    })

    it('closes the source when the client disconnects', async () => {
      const { client } = await waitForStall()
      client.destroy()
      await until(() => isClosed)
      expect(isClosed).toBe(true)
    })

    it('closes the connection after 120 s without reading', async () => {
      jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] })
      const { res } = await waitForStall()
      jest.advanceTimersByTime(119_000)
      expect(res.destroyed).toBe(false)
      jest.advanceTimersByTime(2_000)
      expect(res.destroyed).toBe(true)
      await until(() => isClosed)
    })
  })
})
