import { afterEach, describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { handleOneAtATime } from '../../../servers/http/listen.js'
import { until } from '../../support/fixtures/until.js'
import { sampled } from '../../support/fixtures/time-factor.js'

let server: Server | undefined

afterEach(() => {
  server?.closeAllConnections()
  server?.close()
})

async function start(listener: RequestListener): Promise<number> {
  server = createServer(handleOneAtATime(listener))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

/** Opens a connection whose responses are read and dropped. */
async function openConnection(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1').resume()
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  return socket
}

const createRequests = (count: number): string =>
  Array.from({ length: count }, (_, index) => `GET /${index} HTTP/1.1\r\nHost: a\r\n\r\n`).join('')

interface Sent {
  socket: Socket
  received: () => string
}

function send(port: number, text: string): Sent {
  const socket = connect(port, '127.0.0.1')
  let received = ''
  socket.setEncoding('latin1').on('data', (chunk: string) => (received += chunk))
  socket.on('error', () => undefined)
  socket.write(text)
  return { socket, received: () => received }
}

describe('handleOneAtATime', () => {
  it('starts each request of a connection after the previous response, in order', async () => {
    let [inFlight, mostInFlight] = [0, 0]
    const port = await start((req, res) => {
      inFlight += 1
      mostInFlight = Math.max(mostInFlight, inFlight)
      setTimeout(() => {
        inFlight -= 1
        res.end(`<${req.url!}>`)
      }, 5)
    })
    const { received } = send(port, createRequests(100))
    await until(() => received().includes('</99>'))
    const answers = [...received().matchAll(/<\/(\d+)>/g)].map(([, number]) => Number(number))
    expect(answers).toEqual(Array.from({ length: 100 }, (_, index) => index))
    expect(mostInFlight).toBe(1)
  })

  it('closes a connection with 101 unanswered requests', async () => {
    let begun = 0
    const port = await start(() => {
      begun += 1
    })
    const { socket, received } = send(port, createRequests(101))
    await once(socket, 'close')
    expect([received(), begun]).toEqual(['', 1])
  })

  it('starts no request of a client that has disconnected', async () => {
    const begun: string[] = []
    let isGone = false
    const port = await start((req, res) => {
      begun.push(req.url!)
      req.socket.once('close', () => {
        isGone = true
        res.end()
      })
    })
    const { socket } = send(port, createRequests(5))
    await until(() => begun.length > 0)
    socket.destroy()
    await until(() => isGone)
    for (let round = 0; round < 20; round += 1) await new Promise(setImmediate)
    expect(begun).toEqual(['/0'])
  })

  it('starts a request of a new connection before the queued requests of others', async () => {
    const started: string[] = []
    const newcomers: Socket[] = []
    let finish = (): void => undefined
    const finished = new Promise<void>((resolve) => (finish = resolve))
    const port = await start((req, res) => {
      started.push(req.url!)
      // After this call the bytes are in the server's socket. Only a server that reads no sockets can miss them.
      if (started.length === 1) newcomers[0]?.write('GET /newcomer HTTP/1.1\r\nHost: a\r\n\r\n')
      res.end()
      if (started.length === 40 * 99 + 1) finish()
    })
    const accepted = new Promise<void>((resolve) => {
      let count = 0
      server?.on('connection', () => {
        count += 1
        if (count === 41) resolve()
      })
    })
    const sockets = await Promise.all(Array.from({ length: 41 }, () => openConnection(port)))
    await accepted
    newcomers.push(...sockets.splice(40))
    for (const socket of sockets) socket.write(createRequests(99))
    await finished
    // The server may start the first request of each of the 40 connections, and some queued requests.
    expect(started.indexOf('/newcomer')).toBeLessThan(80)
  })

  it('answers every request over 40 persistent connections exactly once', async () => {
    const [connections, requestCount] = [40, sampled(25, 300)]
    const started = new Map<string, number>()
    const sockets = new Map<number | undefined, Socket>()
    const bodies: string[] = []
    let finish = (): void => undefined
    const finished = new Promise<void>((resolve) => (finish = resolve))
    const sendNext = (connection: Socket, number: number): void => {
      const body = `{"number":${number}}`
      connection.write(`POST /${number} HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
    }
    const port = await start((req, res) => {
      const id = `${req.socket.remotePort} ${req.url!}`
      started.set(id, (started.get(id) ?? 0) + 1)
      let body = ''
      req.on('data', (chunk: Buffer) => (body += chunk.toString()))
      req.on('end', () => {
        bodies.push(body)
        // A response that ends in this phase of the event loop makes the client send at once. Sockets are read
        // before the next immediate, which would start a request a second time if it was already queued.
        setImmediate(() => res.end())
      })
      res.on('close', () => {
        const [socket, number] = [sockets.get(req.socket.remotePort), Number(req.url!.slice(1)) + 1]
        if (socket !== undefined && number < requestCount) sendNext(socket, number)
        else if (bodies.length === connections * requestCount) finish()
      })
    })
    for (let count = 0; count < connections; count += 1) {
      const socket = await openConnection(port)
      sockets.set(socket.localPort, socket)
    }
    for (const socket of sockets.values()) sendNext(socket, 0)
    await finished
    expect([started.size, Math.max(...started.values())]).toEqual([connections * requestCount, 1])
    const expected = Array.from({ length: requestCount }, (_, number) => `{"number":${number}}`)
    expect(new Set(bodies)).toEqual(new Set(expected))
    expect(bodies).toHaveLength(connections * requestCount)
  })

  it('serves connections concurrently', async () => {
    let begun = 0
    const port = await start((_req, res) => {
      begun += 1
      if (begun === 3) res.end('third')
    })
    const exchanges = Array.from({ length: 3 }, () => send(port, createRequests(1)))
    await until(() => exchanges.some(({ received }) => received().endsWith('third')))
    expect(begun).toBe(3)
  })
})
