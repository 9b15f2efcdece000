import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { createServer, type Server } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { testApp, type TestApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const BODY = JSON.stringify({ did: walletOf(1).did })
const head = (path: string, length = BODY.length) =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${String(length)}\r\n\r\n`

/** One connection to an application: what it has answered so far, and whether it is closed. */
interface Exchange {
  socket: Socket
  received: () => string
  /** Resolves when the request has reached our routes. */
  arrived: Promise<void>
  closed: Promise<void>
}

let server: Server

async function open(before: (app: TestApp['app'], isHere: () => unknown) => void): Promise<Exchange> {
  let isHere: () => void = () => undefined
  const arrived = new Promise<void>((resolve) => (isHere = resolve))
  const { app } = await testApp(
    {},
    {
      before: (host) => {
        before(host, () => setImmediate(isHere))
      }
    }
  )
  server = createServer(app)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  let received = ''
  socket.setEncoding('utf8').on('data', (chunk: string) => (received += chunk))
  const closed = new Promise<void>((resolve) => socket.on('close', resolve))
  return { socket, received: () => received, arrived, closed }
}

const announce = (app: TestApp['app'], isHere: () => unknown): void => {
  app.use((_req, _res, next) => {
    isHere()
    next()
  })
}

/** Resolves when as much as this has been answered; by rounds of the event loop, since time stands still. */
async function answered({ received }: Exchange, pattern: RegExp): Promise<void> {
  while (!pattern.test(received())) await new Promise((resolve) => setImmediate(resolve))
}

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'Date', 'performance', 'hrtime'] })
})

afterEach(() => {
  jest.useRealTimers()
  server.closeAllConnections()
  server.close()
})

describe('a body that does not come', () => {
  // Cause: a connection that announced a body and sent none was held for five minutes, Node's own limit.
  it.each(['/request-auth', '/request-signup', '/auth', '/signup', '/refresh-token'])(
    'at %s is 408 after 30 s and not before, and the connection is closed',
    async (path) => {
      const exchange = await open(announce)
      exchange.socket.write(head(path))
      await exchange.arrived
      jest.advanceTimersByTime(29_999)
      await new Promise((resolve) => setImmediate(resolve))
      expect(exchange.received()).toBe('')
      jest.advanceTimersByTime(1)
      await exchange.closed
      expect(exchange.received()).toMatch(/^HTTP\/1.1 408 Request Timeout\r\n/)
      expect(exchange.received()).toMatch(/\r\nConnection: close\r\n(.*\r\n)*\r\nRequest timeout$/)
    }
  )

  it('that comes byte by byte is 408 after 30 s as well', async () => {
    const exchange = await open(announce)
    exchange.socket.write(head('/request-auth'))
    await exchange.arrived
    for (let second = 0; second < 29; second += 1) {
      exchange.socket.write(BODY[second]!)
      await new Promise((resolve) => setImmediate(resolve))
      jest.advanceTimersByTime(1_000)
    }
    expect(exchange.received()).toBe('')
    jest.advanceTimersByTime(1_000)
    await exchange.closed
    expect(exchange.received()).toContain('408 Request Timeout')
  })

  it('is waited for at a logout too, where a refresh token may be in it', async () => {
    const exchange = await open(announce)
    exchange.socket.write(head('/logout'))
    await exchange.arrived
    // The access token is looked at first, and reading it may take a round or two.
    for (let round = 0; round < 5; round += 1) await new Promise((resolve) => setImmediate(resolve))
    jest.advanceTimersByTime(30_000)
    await exchange.closed
    expect(exchange.received()).toContain('408 Request Timeout')
  })
})

describe('a body that comes in time', () => {
  it('is untouched: the same connection serves the next request, and no timer is left', async () => {
    const exchange = await open(announce)
    const timers = jest.getTimerCount()
    exchange.socket.write(head('/request-auth'))
    await exchange.arrived
    jest.advanceTimersByTime(29_999)
    exchange.socket.write(BODY)
    await answered(exchange, /"challenge"/)
    expect(jest.getTimerCount()).toBe(timers)
    jest.advanceTimersByTime(60_000)
    exchange.socket.write(head('/request-auth') + BODY)
    await answered(exchange, /200 OK[^]*200 OK[^]*"challenge"/)
    expect(exchange.received()).not.toContain('408')
  })

  it('leaves no timer behind when its client goes away', async () => {
    const exchange = await open(announce)
    const timers = jest.getTimerCount()
    const gone = new Promise<void>((resolve) => {
      server.on('connection', (socket: Socket) => socket.on('close', () => void setImmediate(resolve)))
    })
    exchange.socket.write(head('/request-auth'))
    await exchange.arrived
    expect(jest.getTimerCount()).toBe(timers + 1)
    exchange.socket.destroy()
    await gone
    expect(jest.getTimerCount()).toBe(timers)
  })
})
