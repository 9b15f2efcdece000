import { afterEach, describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import { Agent, get, type IncomingMessage, type RequestListener } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { listen, type Listening, type ListenLimits } from '../../../servers/http/listen.js'
import { exchange } from '../../support/faults/malformed.js'
import { steadily, until } from '../../support/fixtures/until.js'
import { scaled } from '../../support/fixtures/time-factor.js'

const LONG = scaled(30_000)
const generousLimits = { headers: LONG, request: LONG, idle: LONG, check: 50, stop: LONG }
const running: Listening[] = []

async function start(listener: RequestListener, changedLimits: Partial<ListenLimits> = {}): Promise<Listening> {
  const server = await listen({ port: 0, host: '127.0.0.1', variable: 'PORT' }, { ...generousLimits, ...changedLimits })
  server.serve(listener)
  running.push(server)
  return server
}

const answer: RequestListener = (req, res) => {
  req.resume().on('end', () => res.end('answer'))
}

/** Creates a response that waits until the test releases it. */
function createHeldAnswer(): { listener: RequestListener; arrived: Promise<void>; release: () => void } {
  let release = (): void => undefined
  let arrive = (): void => undefined
  const arrived = new Promise<void>((resolve) => (arrive = resolve))
  const listener: RequestListener = (_req, res) => {
    release = () => res.end('answer')
    arrive()
  }
  return { listener, arrived, release: () => release() }
}

const ask = (port: number, agent?: Agent): Promise<{ text: string; headers: IncomingMessage['headers'] }> =>
  new Promise((resolve, reject) => {
    get({ port, host: '127.0.0.1', agent }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      response.on('end', () => resolve({ text, headers: response.headers }))
    }).on('error', reject)
  })

async function open(port: number, text: string): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' }).resume()
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  if (text !== '') socket.write(text)
  return socket
}

afterEach(() => Promise.all(running.splice(0).map((server) => server.stop())))

describe('listen', () => {
  it('reports in one sentence that a port is in use, and the variable that names it', async () => {
    const { port } = await start(answer)
    await expect(listen({ port, host: '127.0.0.1', variable: 'AUTH_PORT' })).rejects.toThrow(
      `Cannot listen on 127.0.0.1:${port} (HOST, AUTH_PORT): the port is in use`
    )
  })

  it('answers 503 until it receives a listener', async () => {
    const server = await listen({ port: 0, host: '127.0.0.1', variable: 'PORT' })
    running.push(server)
    const { status } = await fetch(server.url)
    server.serve(answer)
    expect([status, await (await fetch(server.url)).text()]).toEqual([503, 'answer'])
  })

  it.each([
    ['bytes that are not HTTP', 'hello\r\n\r\n', 400, 'Bad Request'],
    ['a header without a name', 'GET / HTTP/1.1\r\n: a\r\n\r\n', 400, 'Bad Request'],
    ['a NUL in a header', 'GET / HTTP/1.1\r\nHost: a\u0000\r\n\r\n', 400, 'Bad Request'],
    [
      'headers of 20,000 bytes',
      `GET / HTTP/1.1\r\nA: ${'a'.repeat(20_000)}\r\n\r\n`,
      431,
      'Request Header Fields Too Large'
    ],
    ['half a request line', 'GET /', 400, 'Bad Request'],
    [
      'a chunk without a size',
      'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
      400,
      'Bad Request'
    ]
  ])('answers %s in plain text', async (_what, bytes, status, reason) => {
    const { port } = await start(answer)
    const { text, hung } = await exchange(port, Buffer.from(bytes))
    expect(hung).toBe(false)
    expect(text.split('\r\n')).toEqual([
      `HTTP/1.1 ${status} ${reason}`,
      'Content-Type: text/plain; charset=utf-8',
      'X-Content-Type-Options: nosniff',
      `Content-Length: ${reason.length}`,
      'Connection: close',
      '',
      reason
    ])
  })

  it('adds nothing to a response that has begun', async () => {
    const { port } = await start((_req, res) => {
      res.write('begun')
    })
    const socket = await open(port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    let text = ''
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
    await until(() => text.includes('begun'))
    socket.write('garbage\r\n\r\n')
    await once(socket, 'close')
    expect(text).toContain('begun')
    expect(text).not.toContain('400')
  })

  it.each([
    ['send nothing', ''],
    ['send half their headers', 'GET / HTTP/1.1\r\nHo'],
    ['send half their body', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{']
  ])('closes the connections of 50 clients that each %s', async (_what, text) => {
    const { port } = await start(answer, { headers: 200, request: 300, idle: 300 })
    const sockets = await Promise.all(Array.from({ length: 50 }, () => open(port, text)))
    await Promise.all(sockets.map(async (socket) => socket.closed || once(socket, 'close')))
    expect((await steadily(100, () => ask(port))).text).toBe('answer')
  })
})

describe('listen with maxConnections', () =>
  it('closes further connections at once, and accepts new ones after others have closed', async () => {
    const { port } = await start(answer, { headers: 60_000, request: 60_000, idle: 60_000, maxConnections: 10 })
    const half = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{'
    const accepted = await Promise.all(Array.from({ length: 10 }, () => open(port, half)))
    const refused = await Promise.all(Array.from({ length: 10 }, () => open(port, half)))
    const waitForClose = (socket: Socket) => new Promise<void>((resolve) => void socket.on('close', resolve))
    await Promise.all(refused.filter(({ closed }) => !closed).map(waitForClose))
    expect(accepted.some((socket) => socket.destroyed)).toBe(false)
    for (const socket of accepted) socket.destroy()
    let text: string | undefined
    while (text === undefined)
      text = await ask(port).then(
        ({ text }) => text,
        () => undefined
      )
    expect(text).toBe('answer')
  }))

describe('listen with persistent connections', () => {
  const get = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'

  it('keeps an idle connection open for 65 s, so that common clients never meet a reset', async () => {
    const { port } = await start(answer)
    expect((await ask(port, new Agent({ keepAlive: true }))).headers['keep-alive']).toBe('timeout=65')
  })

  it('applies the idle and header timeouts to a request, and not between two requests', async () => {
    const { port } = await start(answer, { headers: 200, request: 200, idle: 200 })
    const [first, second] = await steadily(200, async () => {
      const socket = await open(port, get)
      const [before] = (await once(socket, 'data')) as [Buffer]
      await pause(600)
      socket.end(get)
      const [after] = (await once(socket, 'data')) as [Buffer]
      return [before, after]
    })
    expect([String(first), String(second)].map((text) => text.slice(0, 15))).toEqual([
      'HTTP/1.1 200 OK',
      'HTTP/1.1 200 OK'
    ])
  })

  it('closes the longest idle connection at the maximum, and none that waits for a response', async () => {
    const heldAnswer = createHeldAnswer()
    const { port } = await start((req, res) => (req.url === '/held' ? heldAnswer.listener : answer)(req, res), {
      maxConnections: 4
    })
    const waiting = await open(port, get.replace('/', '/held'))
    await heldAnswer.arrived
    const [first, second] = [await open(port, get), await open(port, '')]
    await once(first, 'data')
    second.write(get)
    await once(second, 'data')
    const closed = once(first, 'close')
    expect((await ask(port)).text).toBe('answer')
    await closed
    expect([waiting.destroyed, second.destroyed]).toEqual([false, false])
    heldAnswer.release()
    expect(String(await once(waiting, 'data'))).toContain('answer')
    for (const socket of [waiting, second]) socket.destroy()
  })
})

describe('listen during uploads', () => {
  const uploads = { idle: 400 }
  const head = 'POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 10\r\n\r\n'

  /** Reads everything that a connection receives until it is closed. */
  async function readUntilClosed(socket: Socket): Promise<string> {
    let text = ''
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
    await once(socket, 'close')
    return text
  }

  it('accepts a slow and steady body that takes longer than the idle timeout', async () => {
    const { port } = await start(answer, uploads)
    const text = await steadily(200, async () => {
      const socket = await open(port, head)
      const received = readUntilClosed(socket)
      for (let sent = 0; sent < 10; sent += 1) {
        socket.write('a')
        await pause(80)
      }
      return received
    })
    expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
  })

  it('answers 408 to a body that stalls, and closes the connection', async () => {
    const { port } = await start(answer, uploads)
    const text = await steadily(200, async () => readUntilClosed(await open(port, `${head}aaaaa`)))
    expect(text).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n[^]*\r\n\r\nRequest Timeout$/)
  })

  it('closes the connection of a client that does not read its response, also after a long wait', async () => {
    let closed: Promise<unknown> | undefined
    const { port } = await start((req, res) => {
      closed = once(req.socket, 'close')
      setTimeout(() => res.end(Buffer.alloc(32_000_000)), 600)
    }, uploads)
    const socket = connect({ port, host: '127.0.0.1' })
    socket.on('error', () => undefined)
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(() => closed !== undefined)
    await closed
    const received = readUntilClosed(socket)
    socket.resume()
    expect((await received).length).toBeLessThan(32_000_000)
  })

  it('sets no time limit for the work of the server', async () => {
    const { text } = await steadily(200, async () => {
      const { listener, arrived, release } = createHeldAnswer()
      const { port } = await start(listener, uploads)
      const response = ask(port)
      await arrived
      await pause(800)
      release()
      return response
    })
    expect(text).toBe('answer')
  })
})

describe('listen with a response before the end of the body', () => {
  const refuse: RequestListener = (_req, res) => {
    res.writeHead(401).end('refused')
  }
  const head = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n'

  /** Sends a byte every 20 ms while the connection is open. */
  function drip(socket: Socket): Promise<void> {
    const timer = setInterval(() => socket.write('a'), 20)
    return new Promise((resolve) => {
      socket.once('close', () => {
        clearInterval(timer)
        resolve()
      })
    })
  }

  // Cause: an upload may take an hour. Clients dripped refused uploads for that time, over all allowed connections.
  it('closes the connections of 20 clients that drip the rest of the body, and then serves others', async () => {
    const { port } = await start(refuse, { rest: 300, maxConnections: 20 })
    const sockets = await Promise.all(Array.from({ length: 20 }, () => open(port, head)))
    const firstData = sockets.map((socket) => once(socket, 'data'))
    const dripping = sockets.map(drip)
    for (const [bytes] of await Promise.all(firstData)) expect(String(bytes)).toMatch(/^HTTP\/1\.1 401 /)
    await Promise.all(dripping)
    let text: string | undefined
    await until(
      async () =>
        (text = await ask(port).then(
          ({ text }) => text,
          () => undefined
        ))
    )
    expect(text).toBe('refused')
  })

  it('closes the connection of a client that does not read the response either', async () => {
    let closed: Promise<unknown> | undefined
    const { port } = await start(
      (req, res) => {
        closed = once(req.socket, 'close')
        res.end(Buffer.alloc(32_000_000))
      },
      { rest: 300 }
    )
    const socket = connect({ port, host: '127.0.0.1' })
    socket.on('error', () => undefined)
    socket.write(head)
    const dripping = drip(socket)
    await until(() => closed !== undefined)
    await closed
    socket.destroy()
    await dripping
  })

  it('keeps the connection of a client that sends the rest in time, and serves its next requests', async () => {
    const { port } = await start(refuse, { rest: 1_000 })
    const statuses = await steadily(200, async () => {
      const socket = await open(port, 'POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{')
      let text = ''
      socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
      const count = (): number => text.split('HTTP/1.1 401').length - 1
      await until(() => count() === 1)
      socket.write('12345678GET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n')
      await until(() => count() === 3)
      await pause(1_300)
      socket.write('GET /4 HTTP/1.1\r\nHost: a\r\n\r\n')
      await until(() => count() === 4 || socket.closed)
      socket.destroy()
      return count()
    })
    expect(statuses).toBe(4)
  })

  it('sends a long response to a client that reads slowly', async () => {
    const { port } = await start((_req, res) => void res.end(Buffer.alloc(32_000_000)), { rest: 100 })
    const socket = connect({ port, host: '127.0.0.1' })
    socket.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    await pause(400)
    let length = 0
    socket.on('data', (chunk: Buffer) => (length += chunk.length))
    await once(socket, 'close')
    expect(length).toBeGreaterThan(32_000_000)
  })
})

describe('Listening.stop', () => {
  it('finishes requests in flight', async () => {
    const { listener, arrived, release } = createHeldAnswer()
    const server = await start(listener)
    const response = ask(server.port, new Agent({ keepAlive: true }))
    await arrived
    let isStopped = false
    const stopped = server.stop().then(() => (isStopped = true))
    await pause(60)
    expect(isStopped).toBe(false)
    release()
    expect((await response).text).toBe('answer')
    await stopped
  })

  it('closes a connection with the response to a request that waited for another', async () => {
    const { listener, arrived, release } = createHeldAnswer()
    const server = await start((req, res) => (req.url === '/held' ? listener : answer)(req, res))
    const requests = ['/held', '/next'].map((path) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
    const socket = await open(server.port, requests.join(''))
    let text = ''
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
    await arrived
    const [stopped, closed] = [server.stop(), once(socket, 'close')]
    release()
    await Promise.all([stopped, closed])
    expect(text.match(/^Connection: .*$/gm)).toEqual(['Connection: keep-alive', 'Connection: close'])
  })

  it('does not wait for idle persistent connections', async () => {
    const server = await start(answer)
    const agent = new Agent({ keepAlive: true })
    await ask(server.port, agent)
    const startedAt = performance.now()
    await server.stop()
    expect(performance.now() - startedAt).toBeLessThan(LONG)
  })

  it('accepts no new connection', async () => {
    const server = await start(answer)
    await server.stop()
    await expect(ask(server.port)).rejects.toThrow('ECONNREFUSED')
  })

  it('cuts off requests that do not end in time', async () => {
    const { listener, arrived } = createHeldAnswer()
    const server = await start(listener, { stop: 100 })
    const response = ask(server.port)
    const refused = expect(response).rejects.toThrow('socket hang up')
    await arrived
    await server.stop()
    await refused
  })
})
