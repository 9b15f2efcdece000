import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { createServer, type Server } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { readBytes } from '../../servers/shared/upload/read-bytes.js'
import { UploadRoom } from '../../servers/shared/upload/upload-room.js'

const SMALL_BYTES = 65_536
const maxBytes = 1_048_576

describe('UploadRoom', () => {
  it('holds as much as it has room for, and not a byte more', () => {
    const room = new UploadRoom({ maxBytes: 100 })
    expect([room.take(60), room.take(41), room.take(40), room.take(1)]).toEqual([true, false, true, false])
    room.give(60)
    expect([room.bytes, room.take(60)]).toEqual([40, true])
  })

  it('gives one holder a quarter, however much room there is, and again once it is given back', () => {
    const room = new UploadRoom({ maxBytes: 100 })
    expect([room.take(20, 'a'), room.take(6, 'a'), room.take(5, 'a'), room.take(25, 'b')]).toEqual([
      true,
      false,
      true,
      true
    ])
    room.give(20, 'a')
    expect([room.take(21, 'a'), room.take(20, 'a'), room.bytes]).toEqual([false, true, 50])
  })

  it('counts against no holder what did not fit beside others', () => {
    const room = new UploadRoom({ maxBytes: 100 })
    room.take(90)
    expect(room.take(20, 'a')).toBe(false)
    room.give(90)
    expect(room.take(25, 'a')).toBe(true)
  })

  it('counts while work is under way, also where it fails, and refuses work that does not fit', async () => {
    const room = new UploadRoom({ maxBytes: 400, smallBytes: 0 })
    const held = await room.hold(100, 'a', async () => {
      await expect(room.hold(1, 'a', () => Promise.resolve())).rejects.toMatchObject({ code: 'ERR_BUSY' })
      return room.bytes
    })
    expect([held, room.bytes]).toEqual([100, 0])
    await expect(room.hold(100, 'a', () => Promise.reject(new Error('no')))).rejects.toThrow('no')
    expect([room.bytes, room.take(100, 'a')]).toEqual([0, true])
  })

  it('does not count work with at most 64 KiB', async () => {
    const room = new UploadRoom({ maxBytes })
    const bytesAt = (bytes: number) => room.hold(bytes, 'a', () => Promise.resolve(room.bytes))
    expect([await bytesAt(SMALL_BYTES), await bytesAt(SMALL_BYTES + 1)]).toEqual([0, SMALL_BYTES + 1])
  })
})

describe('readBytes', () => {
  let server: Server
  let room: UploadRoom
  let now: number
  const sockets: Socket[] = []

  beforeEach(async () => {
    now = 0
    room = new UploadRoom({ maxBytes, nowMilliseconds: () => now })
    server = createServer((req, res) => {
      const bound = Number(req.headers['x-bound'] ?? 8 * maxBytes)
      const holder = String(req.headers['x-holder'])
      readBytes(req, bound, () => new Error('too large'), { room, holder }).then(
        (bytes) => res.end(`got ${bytes.length}`),
        (error: unknown) => res.end((error as { code?: string }).code)
      )
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  })

  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.destroy()
    server.close()
    server.closeAllConnections()
  })

  /** Sends headers and a part of a body, and answers the last line that comes back. */
  function send(headers: string, part: string): { socket: Socket; answer: Promise<string> } {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    sockets.push(socket)
    socket.on('error', () => undefined)
    socket.write(`POST / HTTP/1.1\r\nHost: a\r\n${headers}\r\n\r\n${part}`)
    const answer = new Promise<string>((resolve) => {
      socket.on('data', (data) => {
        const line = String(data).trim().split('\r\n').at(-1)
        if (line?.startsWith('ERR_') === true || line?.startsWith('got') === true) resolve(line)
      })
    })
    return { socket, answer }
  }

  const until = async (isSo: () => boolean): Promise<void> => {
    while (!isSo()) await new Promise(setImmediate)
  }

  it('lets one holder fill a quarter: another one, and everybody with a short body, is read beside it', async () => {
    const [one, two] = ['X-Holder: a', 'X-Holder: b']
    send(`${one}\r\nContent-Length: 262144`, 'a'.repeat(200_000))
    await until(() => room.bytes === 200_000)
    const more = 'a'.repeat(70_000)
    expect(await send(`${one}\r\nContent-Length: 70000`, more).answer).toBe('ERR_BUSY')
    expect(await send(`${two}\r\nContent-Length: 70000`, more).answer).toBe('got 70000')
    expect(await send(`${one}\r\nContent-Length: 65536`, 'a'.repeat(65_536)).answer).toBe('got 65536')
    expect(room.bytes).toBe(200_000)
  })

  it.each([
    ['announced at 64 KiB', 'Content-Length: 65536', 0],
    ['announced at more', 'Content-Length: 65537', 1_000],
    ['of unknown length', 'Transfer-Encoding: chunked', 1_000],
    ['of unknown length, which may be 64 KiB', 'X-Bound: 65536\r\nTransfer-Encoding: chunked', 0],
    ['of unknown length, which may be more', 'X-Bound: 65537\r\nTransfer-Encoding: chunked', 1_000]
  ])('counts a body %s as it should', async (_what, headers, counted) => {
    const seen: number[] = []
    server.once('request', (req) => {
      req.once('data', () => seen.push(room.bytes))
    })
    const part = 'a'.repeat(1_000)
    const { socket } = send(headers, headers.includes('chunked') ? `3e8\r\n${part}\r\n` : part)
    await until(() => seen.length === 1)
    expect(seen).toEqual([counted])
    socket.destroy()
    await until(() => room.bytes === 0)
  })

  it('answers ERR_BUSY to uploads that come no further, when others need their room', async () => {
    const slow = ['a', 'b', 'c', 'd'].map((holder) =>
      send(`X-Holder: ${holder}\r\nContent-Length: 262144`, 'a'.repeat(262_143))
    )
    await until(() => room.bytes === 4 * 262_143)
    const another = () => send('X-Holder: e\r\nContent-Length: 100000', 'a'.repeat(100_000)).answer
    expect(await another()).toBe('ERR_BUSY')
    now = 5_001
    expect(await another()).toBe('got 100000')
    expect(await Promise.race(slow.map(({ answer }) => answer))).toBe('ERR_BUSY')
    expect(room.bytes).toBe(3 * 262_143)
    // What comes of the one that was ended is dropped, and the others go on.
    for (const { socket } of slow) socket.write('a')
    const answers = await Promise.all(slow.map(({ answer }) => answer))
    expect(answers.toSorted()).toEqual(['ERR_BUSY', 'got 262144', 'got 262144', 'got 262144'])
    expect(room.bytes).toBe(0)
  })

  it('refuses a body that no buffer can hold: it threw in a listener, which ended the process', async () => {
    const { answer } = send(`X-Bound: ${2 ** 53 - 1}\r\nContent-Length: ${2 ** 53 - 1}`, 'a')
    // The second is what Node 24 says.
    expect(['ERR_OUT_OF_RANGE', 'ERR_MEMORY_ALLOCATION_FAILED']).toContain(await answer)
    expect(room.bytes).toBe(0)
  })
})
