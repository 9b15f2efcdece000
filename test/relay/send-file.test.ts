import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { sendFile } from '../../servers/relay/send-file.js'
import { SlowReaders } from '../../servers/relay/slow-readers.js'

const MEBIBYTE = 1_048_576

let server: Server
let socket: Socket
let res: ServerResponse
let slowReaders: SlowReaders

/** Gets a request of a client that reads nothing. */
async function start(): Promise<void> {
  server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const asked = new Promise<ServerResponse>((resolve) =>
    server.once('request', (_req, answer) => {
      resolve(answer)
    })
  )
  socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  socket.on('error', () => undefined).write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  res = await asked
}

/** Bytes that would stay if memory let go of the file now. */
function bytesWithout(answer: Buffer): number {
  slowReaders.letGo(answer)
  return slowReaders.bytes
}

beforeEach(() => {
  slowReaders = new SlowReaders()
  jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'clearImmediate', 'queueMicrotask', 'performance'] })
})

afterEach(() => {
  jest.useRealTimers()
  socket.destroy()
  server.close()
  server.closeAllConnections()
})

describe('sendFile', () => {
  it('cuts off who has not fetched a file after 120 s', async () => {
    await start()
    sendFile(res, Buffer.alloc(64 * MEBIBYTE), slowReaders)
    jest.advanceTimersByTime(119_999)
    expect([res.destroyed, res.writableFinished]).toEqual([false, false])
    jest.advanceTimersByTime(1)
    expect(res.destroyed).toBe(true)
  })

  it('watches and counts no longer once a file has left', async () => {
    await start()
    const answer = Buffer.alloc(64 * MEBIBYTE)
    sendFile(res, answer, slowReaders)
    expect([jest.getTimerCount(), bytesWithout(answer)]).toEqual([1, 64 * MEBIBYTE])
    const closed = new Promise((resolve) => res.once('close', resolve))
    socket.resume()
    await closed
    expect([jest.getTimerCount(), slowReaders.bytes]).toEqual([0, 0])
    jest.advanceTimersByTime(120_000)
    expect(socket.destroyed).toBe(false)
  })

  it('counts nobody any more whose connection ends in the middle', async () => {
    await start()
    const answer = Buffer.alloc(64 * MEBIBYTE)
    sendFile(res, answer, slowReaders)
    expect(bytesWithout(answer)).toBe(64 * MEBIBYTE)
    const closed = new Promise((resolve) => res.once('close', resolve))
    socket.destroy()
    await closed
    expect(slowReaders.bytes).toBe(0)
  })

  it('watches and counts nobody who is gone already', async () => {
    await start()
    res.destroy()
    const answer = Buffer.alloc(64 * MEBIBYTE)
    sendFile(res, answer, slowReaders)
    expect([jest.getTimerCount(), bytesWithout(answer)]).toEqual([0, 0])
  })

  it('watches and counts nothing that the system has taken at once', async () => {
    await start()
    const answer = Buffer.alloc(1_024)
    sendFile(res, answer, slowReaders)
    expect([jest.getTimerCount(), bytesWithout(answer)]).toEqual([0, 0])
  })
})
