import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { sendFile } from '../../servers/relay/send-file.js'

const MEBIBYTE = 1_048_576

let server: Server
let socket: Socket
let res: ServerResponse

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

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'clearImmediate', 'queueMicrotask', 'performance'] })
})

afterEach(() => {
  jest.useRealTimers()
  socket.destroy()
  server.close()
  server.closeAllConnections()
})

describe('sendFile', () => {
  it('cuts off who has not fetched a large file after 120 s', async () => {
    await start()
    sendFile(res, Buffer.alloc(64 * MEBIBYTE))
    jest.advanceTimersByTime(119_999)
    expect([res.destroyed, res.writableFinished]).toEqual([false, false])
    jest.advanceTimersByTime(1)
    expect(res.destroyed).toBe(true)
  })

  it('watches no longer once a large file has left', async () => {
    await start()
    sendFile(res, Buffer.alloc(MEBIBYTE))
    expect(jest.getTimerCount()).toBe(1)
    const closed = new Promise((resolve) => res.once('close', resolve))
    socket.resume()
    await closed
    expect(jest.getTimerCount()).toBe(0)
    jest.advanceTimersByTime(120_000)
    expect(socket.destroyed).toBe(false)
  })

  it('watches nobody who is gone already', async () => {
    await start()
    res.destroy()
    sendFile(res, Buffer.alloc(MEBIBYTE))
    expect(jest.getTimerCount()).toBe(0)
  })

  it('watches no small one, of at most 64 KiB', async () => {
    await start()
    sendFile(res, Buffer.alloc(65_536))
    expect(jest.getTimerCount()).toBe(0)
  })
})
