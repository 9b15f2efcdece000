import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals'
import { createServer, request, type IncomingMessage, type Server } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { readText } from '../../servers/shared/upload/read-text.js'
import { UploadRoom } from '../../servers/shared/upload/upload-room.js'

const MAX_BYTES = 1_000

/** What became of one body: the text in bytes, or the code that it was refused with. */
interface Outcome {
  text?: string
  bytes?: number
  code?: string
  message?: string
}

let server: Server
let port: number
let room: UploadRoom
/** The outcomes of requests, in the order in which they ended. */
const outcomes: Outcome[] = []
let arrived: (() => void) | undefined

beforeAll(async () => {
  room = new UploadRoom({ maxBytes: 20_100, smallBytes: 0 })
  server = createServer((req, res) => {
    arrived?.()
    void outcomeOf(req).then((outcome) => {
      outcomes.push(outcome)
      res.end(JSON.stringify(outcome))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  port = (server.address() as AddressInfo).port
})
afterEach(() => {
  outcomes.length = 0
  expect(room.bytes).toBe(0)
})
afterAll(() => {
  server.close()
  server.closeAllConnections()
})

async function outcomeOf(req: IncomingMessage): Promise<Outcome> {
  try {
    const { bytes, json } = await readText(req, 'file', MAX_BYTES, { room })
    const text = bytes.toString()
    return JSON.stringify(text) === json.toString() ? { text, bytes: bytes.length } : { text, code: json.toString() }
  } catch (error) {
    const { code, message } = error as { code: string; message: string }
    return { code, message }
  }
}

interface Sending {
  type?: string | undefined
  /** Sent in pieces of this size, without its length being told before. */
  pieceBytes?: number
}

function post(body: string | Buffer, { type = 'application/json', pieceBytes }: Sending = {}): Promise<Outcome> {
  const bytes = Buffer.from(body)
  return new Promise((resolve, reject) => {
    const headers = {
      ...(type !== '' && { 'Content-Type': type }),
      ...(pieceBytes === undefined && { 'Content-Length': bytes.length })
    }
    const req = request({ port, host: '127.0.0.1', method: 'POST', headers }, (res) => {
      let text = ''
      res.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      res.on('end', () => {
        resolve(JSON.parse(text) as Outcome)
      })
    })
    req.on('error', reject)
    for (let start = 0; start < bytes.length; start += pieceBytes ?? bytes.length) {
      req.write(bytes.subarray(start, start + (pieceBytes ?? bytes.length)))
    }
    req.end()
  })
}

const tooLarge = { code: 'ERR_CONTENT_TOO_LARGE', message: 'Content too large: at most 1000 bytes' }

describe('readText', () => {
  it.each([
    ['plain text', '{"file":"text"}', 'text'],
    ['no text', '{"file":""}', ''],
    ['all escapes', '{"file":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00"}', '"\\/\b\f\n\r\té😀'],
    ['NUL as an escape', '{"file":"a\\u0000b"}', 'a\0b'],
    ['characters of 1 to 4 bytes', '{"file":"aé€😀"}', 'aé€😀'],
    ['space around', ' \r\n{ "file" :\t"text" } ', 'text'],
    ['a byte order mark before the object', '\ufeff{"file":"text"}', 'text'],
    ['a byte order mark in the text', '{"file":"\\ufefftext\ufeff"}', '\ufefftext\ufeff'],
    ['other fields', '{"a":{"file":1},"file":"text","b":[]}', 'text'],
    ['the field twice: the last one counts', '{"file":"a","file":"text"}', 'text'],
    ['the field under an escaped name', '{"\\u0066ile":"text"}', 'text']
  ])('reads %s', async (_what, body, text) => {
    expect(await post(body)).toEqual({ text, bytes: Buffer.byteLength(text) })
  })

  it.each([
    ['nothing', ''],
    ['no field', '{}'],
    ['another field', '{"content":"text"}'],
    ['null', '{"file":null}'],
    ['a number', '{"file":1}'],
    ['true', '{"file":true}'],
    ['an array', '{"file":["text"]}'],
    ['an object', '{"file":{"file":"text"}}'],
    ['the field in another object', '{"a":{"file":"text"}}'],
    ['the field in the prototype', '{"__proto__":{"file":"text"}}'],
    ['an array around', '[{"file":"text"}]'],
    ['a string', '"file"'],
    ['null alone', 'null'],
    ['half a surrogate pair, the first', '{"file":"\\ud83d"}'],
    ['half a surrogate pair, the second', '{"file":"\\ude00 "}'],
    ['a surrogate pair in the wrong order', '{"file":"\\ude00\\ud83d"}'],
    ['the field twice, the last one a number', '{"file":"text","file":1}']
  ])('refuses %s with ERR_CONTENT', async (_what, body) => {
    expect(await post(body)).toEqual({ code: 'ERR_CONTENT', message: 'Invalid content' })
  })

  it.each([
    ['what is no JSON', 'file=text'],
    ['half an object', '{"file":"text"'],
    ['more than an object', '{"file":"text"}}'],
    ['a line feed as it is', '{"file":"a\nb"}'],
    ['NUL as it is', '{"file":"a\0b"}'],
    ['an escape that JSON does not know', '{"file":"\\x41"}'],
    ['half an escape', '{"file":"\\u00"}'],
    ['single quotes', "{'file':'text'}"],
    ['a comment', '{"file":"text"}//'],
    [
      'a byte that UTF-8 does not have',
      Buffer.concat([Buffer.from('{"file":"a'), Buffer.from([0xff]), Buffer.from('"}')])
    ],
    ['a character cut off', Buffer.concat([Buffer.from('{"file":"'), Buffer.from([0xe2, 0x82]), Buffer.from('"}')])],
    [
      'a character longer than needed',
      Buffer.concat([Buffer.from('{"file":"'), Buffer.from([0xc0, 0x80]), Buffer.from('"}')])
    ],
    [
      'a surrogate in UTF-8',
      Buffer.concat([Buffer.from('{"file":"'), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from('"}')])
    ],
    [
      'no UTF-8 in another field',
      Buffer.concat([Buffer.from('{"file":"a","b":"'), Buffer.from([0x80]), Buffer.from('"}')])
    ],
    ['UTF-16', Buffer.from('\ufeff{"file":"text"}', 'utf16le')]
  ])('refuses %s with ERR_JSON, and does not quote it', async (_what, body) => {
    expect(await post(body)).toEqual({ code: 'ERR_JSON', message: 'Malformed JSON' })
  })

  it.each(['application/json; charset=utf-8', 'APPLICATION/JSON', 'application/vnd.api+json', 'application/json ;x=y'])(
    'takes the content type %s',
    async (type) => {
      expect(await post('{"file":"text"}', { type })).toEqual({ text: 'text', bytes: 4 })
    }
  )

  it.each([
    '',
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/jsonp',
    'text/json',
    'multipart/form-data'
  ])('refuses the content type "%s"', async (type) => {
    expect(await post('{"file":"text"}', { type })).toMatchObject({ code: 'ERR_CONTENT' })
  })

  describe.each([
    ['as they are', (text: string) => JSON.stringify(text)],
    ['as escapes', (text: string) => `"${text.replaceAll(/[^]/g, escapeOf)}"`]
  ])('counts characters %s', (_how, spell) => {
    it.each([
      ['1 byte', 'a', 1],
      ['2 bytes', 'é', 2],
      ['3 bytes', '€', 3],
      ['4 bytes', '😀', 4]
    ])('of %s: up to 1000 bytes', async (_what, character, size) => {
      const text = character.repeat(Math.floor(MAX_BYTES / size)) + 'b'.repeat(MAX_BYTES % size)
      expect(await post(`{"file":${spell(text)}}`)).toEqual({ text, bytes: 1_000 })
      expect(await post(`{"file":${spell(`${text}c`)}}`)).toEqual(tooLarge)
    })
  })

  it('refuses a body that is announced as longer than the longest spelling, before it is there', async () => {
    const socket = connect(port, '127.0.0.1')
    socket.write(
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 7025\r\n\r\n{"file":"'
    )
    const answer = await new Promise<string>((resolve) =>
      socket.once('data', (data) => {
        resolve(String(data))
      })
    )
    expect(answer).toContain('ERR_CONTENT_TOO_LARGE')
    socket.destroy()
  })

  it('refuses a body that becomes longer than the longest spelling', async () => {
    expect(await post(`{"file":"${' '.repeat(7_016)}`, { pieceBytes: 100 })).toEqual(tooLarge)
    expect(await post(`{"file":"${' '.repeat(7_015)}`, { pieceBytes: 100 })).toMatchObject({ code: 'ERR_JSON' })
  })

  it('reads a body in pieces of one byte', async () => {
    const text = 'é€😀"\\'.repeat(60)
    expect(await post(`{"file":${JSON.stringify(text)}}`, { pieceBytes: 1 })).toEqual({ text, bytes: 660 })
  })

  it('answers nobody when an upload is broken off, and holds nothing of it', async () => {
    const socket = connect(port, '127.0.0.1')
    socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"file":"')
    await new Promise<void>((resolve) => (arrived = resolve))
    socket.destroy()
    await until(() => outcomes.length === 1)
    expect(outcomes).toEqual([{ code: 'ERR_JSON', message: 'Malformed JSON' }])
  })

  it('does not wait for the body of a client that is gone already', async () => {
    const socket = connect(port, '127.0.0.1')
    const gone = new Promise<Outcome>((resolve) => {
      server.prependOnceListener('request', (req: IncomingMessage) => {
        req.once('close', () => {
          resolve(outcomeOf(req))
        })
      })
    })
    socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"file":"')
    await new Promise<void>((resolve) => (arrived = resolve))
    socket.destroy()
    expect(await gone).toMatchObject({ code: 'ERR_JSON' })
    await until(() => outcomes.length === 1)
  })

  it('does not wait for a body that somebody else has read', async () => {
    const read = new Promise<Outcome>((resolve) => {
      server.prependOnceListener('request', (req: IncomingMessage) => {
        req.once('end', () =>
          setImmediate(() => {
            resolve(outcomeOf(req))
          })
        )
      })
    })
    await post('{"file":"text"}')
    expect(await read).toMatchObject({ code: 'ERR_JSON' })
  })

  it('refuses with ERR_BUSY what does not fit beside the other uploads, and takes it when they are over', async () => {
    const half = `{"file":"${'a'.repeat(900)}`
    const sockets = Array.from({ length: 25 }, () => {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => undefined)
      socket.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 911\r\n\r\n${half}`)
      return socket
    })
    await until(() => outcomes.length === 3)
    expect(outcomes).toEqual(Array.from({ length: 3 }, () => ({ code: 'ERR_BUSY', message: 'Busy, try again' })))
    expect(room.bytes).toBe(22 * 909)
    expect(await post('{"file":"text"}')).toEqual({ text: 'text', bytes: 4 })
    for (const socket of sockets) socket.destroy()
    await until(() => room.bytes === 0)
    expect(await post(`${half}"}`)).toMatchObject({ bytes: 900 })
  })
})

function escapeOf(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** Waits for at most 2 s. */
async function until(isSo: () => boolean): Promise<void> {
  const end = performance.now() + 2_000
  while (!isSo()) {
    if (performance.now() > end) throw new Error('it did not happen')
    await new Promise(setImmediate)
  }
}
