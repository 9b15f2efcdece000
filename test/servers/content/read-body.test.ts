import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals'
import { createHash, randomBytes } from 'node:crypto'
import { closeSync, fstatSync, mkdtempSync, openSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { createServer, request, type IncomingMessage, type Server } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BodyReader } from '../../../servers/content/read-body.js'
import type { NewContent } from '../../../servers/content/content-store.js'
import { listOpenFiles } from '../../support/fixtures/open-files.js'
import { until } from '../../support/fixtures/until.js'
import { computeCid } from '../../support/servers/content-stores.js'

const MAX_BYTES = 1_000

/** Outcome of one body: its text and size, or the code of its refusal. */
interface Outcome {
  text?: string
  bytes?: number
  code?: string
  message?: string
}

const spoolFolder = mkdtempSync(join(tmpdir(), 'spool-'))
const newFile = (): string => join(spoolFolder, randomBytes(8).toString('hex'))
let bodies = new BodyReader({ newFile })
let server: Server
let port: number
let maxBytes = MAX_BYTES
/** Receives the content while it exists. */
let onContent: ((content: NewContent) => Promise<void>) | undefined
/** Outcomes of requests, in the order of their ends. */
const outcomes: Outcome[] = []
const sockets: Socket[] = []
let onRequest: (() => void) | undefined

beforeAll(async () => {
  server = createServer((req, res) => {
    onRequest?.()
    void readOutcome(req).then((outcome) => {
      outcomes.push(outcome)
      res.end(JSON.stringify(outcome))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  port = (server.address() as AddressInfo).port
})
afterEach(async () => {
  jest.useRealTimers()
  for (const socket of sockets.splice(0)) socket.destroy()
  await until(() => readdirSync(spoolFolder).length === 0)
  outcomes.length = 0
  maxBytes = MAX_BYTES
  onContent = undefined
})
afterAll(() => {
  server.close()
  server.closeAllConnections()
  rmSync(spoolFolder, { recursive: true })
})

async function readOutcome(req: IncomingMessage): Promise<Outcome> {
  const owner = String(req.headers['x-owner'] ?? 'did:ethr:rsk:0x1')
  try {
    return await bodies.read(req, { field: 'file', maxBytes, owner }, async (content) => {
      await onContent?.(content)
      const { source, ...hashed } = content
      const bytes = Buffer.from('file' in source ? readFileSync(source.file) : source)
      expect(hashed).toEqual(computeHashedContent(bytes))
      expect('file' in source).toBe(bytes.length > 65_536)
      const text = bytes.toString()
      return { text, bytes: bytes.length }
    })
  } catch (error) {
    const { code, message } = error as { code: string; message: string }
    return { code, message }
  }
}

interface Sending {
  type?: string | undefined
  /** Size of the pieces in which the body is sent, without Content-Length. */
  pieceBytes?: number
  owner?: string
}

function post(body: string | Buffer, { type = 'application/json', pieceBytes, owner }: Sending = {}): Promise<Outcome> {
  const bytes = Buffer.from(body)
  return new Promise((resolve, reject) => {
    const headers = {
      ...(owner !== undefined && { 'X-Owner': owner }),
      ...(type !== '' && { 'Content-Type': type }),
      ...(pieceBytes === undefined && { 'Content-Length': bytes.length })
    }
    const req = request({ port, host: '127.0.0.1', method: 'POST', headers }, (res) => {
      let text = ''
      res.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      res.on('end', () => resolve(JSON.parse(text) as Outcome))
    })
    req.on('error', reject)
    for (let start = 0; start < bytes.length; start += pieceBytes ?? bytes.length) {
      req.write(bytes.subarray(start, start + (pieceBytes ?? bytes.length)))
    }
    req.end()
  })
}

/** Opens a connection that is closed after the test. */
function openConnection(): Socket {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => undefined)
  sockets.push(socket)
  return socket
}

const tooLarge = { code: 'ERR_CONTENT_TOO_LARGE', message: 'Content too large: at most 1000 bytes' }

describe('BodyReader', () => {
  it.each([
    ['{"file":"\\u0000aé€😀"}', { text: '\0aé€😀', bytes: 11 }],
    ['{"content":"text"}', { code: 'ERR_CONTENT', message: 'Invalid content' }],
    ['file=text', { code: 'ERR_JSON', message: 'Malformed JSON' }]
  ])('reads %s as %j', async (body, outcome) => {
    expect(await post(body)).toEqual(outcome)
  })

  it.each(['application/json; charset=utf-8', 'APPLICATION/JSON', 'application/vnd.api+json', 'application/json ;x=y'])(
    'accepts the content type %s',
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
    ['that are written literally', (text: string) => JSON.stringify(text)],
    ['that are written as escapes', (text: string) => `"${text.replaceAll(/[^]/g, toEscape)}"`]
  ])('the limit for characters %s', (_how, spell) =>
    it.each([
      ['1-byte', 'a', 1],
      ['2-byte', 'é', 2],
      ['3-byte', '€', 3],
      ['4-byte', '😀', 4]
    ])('accepts at most 1000 bytes of %s characters', async (_what, character, size) => {
      const text = character.repeat(Math.floor(MAX_BYTES / size)) + 'b'.repeat(MAX_BYTES % size)
      expect(await post(`{"file":${spell(text)}}`)).toEqual({ text, bytes: 1_000 })
      expect(await post(`{"file":${spell(`${text}c`)}}`)).toEqual(tooLarge)
    })
  )

  it('refuses a body whose announced length exceeds the limit, before the body arrives', async () => {
    const socket = openConnection()
    socket.write(
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 7025\r\n\r\n{"file":"'
    )
    const answer = await new Promise<string>((resolve) => socket.once('data', (data) => resolve(String(data))))
    expect(answer).toContain('ERR_CONTENT_TOO_LARGE')
    socket.destroy()
  })

  it('refuses a body that grows beyond the limit', async () => {
    expect(await post(`{"file":"${' '.repeat(7_016)}`, { pieceBytes: 100 })).toEqual(tooLarge)
    expect(await post(`{"file":"${' '.repeat(7_015)}`, { pieceBytes: 100 })).toMatchObject({ code: 'ERR_JSON' })
  })

  it('reads a body in pieces of one byte', async () => {
    const text = 'é€😀"\\'.repeat(60)
    expect(await post(`{"file":${JSON.stringify(text)}}`, { pieceBytes: 1 })).toEqual({ text, bytes: 660 })
  })

  it('fails with ERR_JSON when an upload is aborted, and keeps nothing of it', async () => {
    const socket = openConnection()
    socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"file":"')
    await new Promise<void>((resolve) => (onRequest = resolve))
    socket.destroy()
    await until(() => outcomes.length === 1)
    expect(outcomes).toEqual([{ code: 'ERR_JSON', message: 'Malformed JSON' }])
  })

  it('does not wait for the body of a client that has disconnected', async () => {
    const socket = openConnection()
    const outcomeAfterClose = new Promise<Outcome>((resolve) => {
      server.prependOnceListener('request', (req: IncomingMessage) => {
        req.once('close', () => resolve(readOutcome(req)))
      })
    })
    socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"file":"')
    await new Promise<void>((resolve) => (onRequest = resolve))
    socket.destroy()
    expect(await outcomeAfterClose).toMatchObject({ code: 'ERR_JSON' })
    await until(() => outcomes.length === 1)
  })

  it('does not wait for a body that was already read', async () => {
    const outcomeAfterRead = new Promise<Outcome>((resolve) => {
      server.prependOnceListener('request', (req: IncomingMessage) => {
        req.once('end', () => setImmediate(() => resolve(readOutcome(req))))
      })
    })
    await post('{"file":"text"}')
    expect(await outcomeAfterRead).toMatchObject({ code: 'ERR_JSON' })
  })
})

describe('BodyReader with content above 64 KiB', () => {
  const long = 'a text that goes on and on €😀 '.repeat(60_000)
  const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

  /** Posts a long body, and returns the hash of its text: a failed test should not print the text. */
  async function postLong(
    body: string | Buffer,
    sending?: Sending
  ): Promise<Omit<Outcome, 'text'> & { hash?: string }> {
    maxBytes = 8_388_608
    const { text, ...outcome } = await post(body, sending)
    return { ...outcome, ...(text !== undefined && { hash: sha256(text) }) }
  }

  it.each([
    ['without escapes', JSON.stringify({ file: long }), long],
    ['with escapes', JSON.stringify({ file: `"\n\0${long}` }), `"\n\0${long}`],
    ['that is written only as escapes', `{"file":"${'\\u20ac'.repeat(50_000)}"}`, '€'.repeat(50_000)],
    ['between other fields', `{ "a": "${long}", "file": ${JSON.stringify(long)}, "b": [1] }`, long],
    [
      'before a shorter value of the same field, which wins',
      JSON.stringify({ file: long }).replace(/}$/, ',"file":"short"}'),
      'short'
    ],
    [
      'before a long value of the same field, which wins',
      JSON.stringify({ file: long }).replace(/}$/, `,"file":"${long.slice(9)}"}`),
      long.slice(9)
    ],
    ['of 65,536 bytes', `{"file":"${'a'.repeat(65_536)}"}`, 'a'.repeat(65_536)],
    ['of 65,537 bytes', `{"file":"${'a'.repeat(65_537)}"}`, 'a'.repeat(65_537)],
    ['of one leaf', `{"file":"${'a'.repeat(262_144)}"}`, 'a'.repeat(262_144)]
  ])('reads a body %s', async (_what, body, text) => {
    const outcome = { bytes: Buffer.byteLength(text), hash: sha256(text) }
    expect(await postLong(body)).toEqual(outcome)
    expect(await postLong(body, { pieceBytes: 10_007 })).toEqual(outcome)
  })

  it('refuses content above the maximum, and keeps no file of it', async () => {
    maxBytes = 100_000
    expect(await post(`{"file":"${'a'.repeat(100_001)}"}`)).toMatchObject({ code: 'ERR_CONTENT_TOO_LARGE' })
    expect(await post(`{"file":"${'a'.repeat(100_000)}"}`)).toMatchObject({ bytes: 100_000 })
  })

  it('writes no more than the maximum to the file of content that is too large', async () => {
    maxBytes = 100_000
    const socket = sendHalf(500_000)
    await until(() => readdirSync(spoolFolder).length === 1)
    const file = openSync(join(spoolFolder, readdirSync(spoolFolder)[0] ?? ''), 'r')
    socket.write('a'.repeat(250_000))
    await until(() => outcomes.length === 1)
    const writtenBytes = fstatSync(file).size
    closeSync(file)
    expect([outcomes[0]?.code, writtenBytes <= 100_000]).toEqual(['ERR_JSON', true])
  })

  it('deletes the spool file when the client disconnects', async () => {
    maxBytes = 1_000_000
    const socket = sendHalf(200_000)
    await until(() => readdirSync(spoolFolder).length === 1)
    socket.destroy()
    await until(() => outcomes.length === 1)
    expect(outcomes).toMatchObject([{ code: 'ERR_JSON' }])
    await until(() => readdirSync(spoolFolder).length === 0)
  })

  it('closes the spool files of bodies that are refused or aborted', async () => {
    maxBytes = 100_000
    await post(`{"file":"${'a'.repeat(100_001)}"}`)
    const socket = sendHalf(200_000)
    await until(() => readdirSync(spoolFolder).length === 1)
    expect(listOpenFiles(spoolFolder)).toHaveLength(1)
    socket.destroy()
    await until(() => outcomes.length === 2)
    expect(outcomes).toMatchObject([{ code: 'ERR_CONTENT_TOO_LARGE' }, { code: 'ERR_JSON' }])
    expect(listOpenFiles(spoolFolder)).toEqual([])
  })

  it('refuses a body below the minimum data rate, and deletes its file', async () => {
    maxBytes = 1_000_000
    jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] })
    const socket = sendHalf(200_000)
    await until(() => readdirSync(spoolFolder).length === 1)
    // The clock advances in steps because the last bytes may still be in flight.
    await until(() => {
      jest.advanceTimersByTime(1_000)
      return outcomes.length === 1
    })
    jest.useRealTimers()
    expect(outcomes).toEqual([{ code: 'ERR_REQUEST_TIMEOUT', message: 'Request timeout' }])
    await until(() => readdirSync(spoolFolder).length === 0)
    socket.destroy()
  })

  it('passes content as an open file that the caller can move, and closes it afterwards', async () => {
    const movedPath = join(tmpdir(), `kept-${randomBytes(8).toString('hex')}`)
    let handle: FileHandle | undefined
    maxBytes = 1_000_000
    onContent = async ({ source }) => {
      if (!('file' in source)) return
      ;({ handle } = source)
      expect(handle.fd).toBeGreaterThan(0)
      renameSync(source.file, movedPath)
      renameSync(movedPath, source.file)
      expect(readFileSync(source.file, 'utf8')).toBe('b'.repeat(70_000))
    }
    expect(await post(`{"file":"${'b'.repeat(70_000)}"}`)).toMatchObject({ bytes: 70_000 })
    expect(handle?.fd).toBe(-1)
  })

  it('refuses the ninth body above 64 KiB of one owner, and reads those of other owners', async () => {
    maxBytes = 1_000_000
    for (let count = 0; count < 8; count += 1) sendHalf(200_000)
    await until(() => readdirSync(spoolFolder).length === 8)
    const body = `{"file":"${'a'.repeat(70_000)}"}`
    expect(await post(body)).toEqual({ code: 'ERR_BUSY', message: 'Busy, try again' })
    expect(await post(body, { owner: 'did:ethr:rsk:0x2' })).toMatchObject({ bytes: 70_000 })
    expect(await post('{"file":"short"}')).toMatchObject({ bytes: 5 })
    sockets[0]?.destroy()
    await until(async () => 'bytes' in (await post(body)))
    expect(readdirSync(spoolFolder)).toHaveLength(7)
  })

  it('reads a body while 32 others use all reused buffers, and uses them again', async () => {
    bodies = new BodyReader({ newFile })
    const allocate = jest.spyOn(Buffer, 'allocUnsafeSlow')
    const countBuffers = (size: number): number => allocate.mock.calls.filter(([bytes]) => bytes === size).length
    maxBytes = 1_000_000
    for (let count = 0; count < 32; count += 1) sendHalf(200_000, `did:ethr:rsk:0x${count}`)
    await until(() => readdirSync(spoolFolder).length === 32)
    expect(await postLong(JSON.stringify({ file: long }))).toMatchObject({ hash: sha256(long) })
    expect(countBuffers(262_144)).toBe(32)
    for (const socket of sockets.splice(0)) socket.destroy()
    await until(() => readdirSync(spoolFolder).length === 0)
    allocate.mockClear()
    expect(await postLong(JSON.stringify({ file: long }))).toMatchObject({ hash: sha256(long) })
    expect([countBuffers(65_536), countBuffers(262_144)]).toEqual([0, 0])
    allocate.mockRestore()
  })

  it.each([
    ['ENOSPC', 'ERR_STORAGE_FULL', 'Storage full'],
    ['EIO', 'ERR_STORAGE', 'Storage unavailable, try again']
  ])('reports %s of the spool as %s', async (failure, code, message) => {
    const workingReader = bodies
    const newFile = () => {
      throw Object.assign(new Error('spool'), { code: failure })
    }
    bodies = new BodyReader({ newFile })
    const outcome = await postLong(JSON.stringify({ file: long }))
    bodies = workingReader
    expect(outcome).toEqual({ code, message })
  })

  /** Sends half of a body, and returns the connection. */
  function sendHalf(length: number, owner = 'did:ethr:rsk:0x1'): Socket {
    const socket = openConnection()
    const headers = `Host: a\r\nX-Owner: ${owner}\r\nContent-Type: application/json\r\nContent-Length: ${length}`
    const head = `POST / HTTP/1.1\r\n${headers}\r\n\r\n`
    socket.write(`${head}{"file":"${'a'.repeat(length / 2)}`)
    return socket
  }
})

function toEscape(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** Computes the hashes of complete content, for comparison with the hasher of pieces. */
function computeHashedContent(bytes: Uint8Array) {
  const leafCount = Math.max(1, Math.ceil(bytes.length / 262_144))
  const leaves = Array.from({ length: leafCount }, (_, index) => bytes.subarray(index * 262_144, (index + 1) * 262_144))
  const hashes = leaves.map((leaf) => createHash('sha256').update(leaf).digest())
  return { cid: computeCid(bytes), byteCount: bytes.length, leafHashes: Buffer.concat(hashes) }
}
