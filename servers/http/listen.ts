import { createServer, STATUS_CODES } from 'node:http'
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { computeClientNetwork, NetworkShares } from 'express-did-auth/server-kit'
import type { ServerAddress } from '../config/read-env.js'
import { getErrorCode, describeReason, StartError } from '../config/startup-error.js'
import { limitMilliseconds } from '../config/time-limits.js'
import type { Metrics } from '../observability/metrics.js'

/** Time limits for clients in milliseconds, and limits for the number of connections. */
const LIMITS = {
  headers: limitMilliseconds.headers,
  /** Time limit for headers and body. */
  request: limitMilliseconds.receive,
  /** Time limit without a transferred byte while the server waits for the client. */
  idle: limitMilliseconds.receive,
  /** Time limit between two requests. */
  keepAlive: limitMilliseconds.keepAlive,
  /** Time limit for the rest of a body after the response. */
  rest: limitMilliseconds.bodyRest,
  /** Interval of checking the limits of headers and requests. */
  check: limitMilliseconds.receiveCheck,
  /** Time limit for requests in flight when the server stops. */
  stop: limitMilliseconds.stopRequests,
  /** Maximum number of open connections. Each may hold a body of up to 64 KiB in memory. */
  maxConnections: 4_096,
  /** Whether a client network may hold at most a quarter of them, and its site a half. False behind a proxy. */
  perNetwork: false
}
export type ListenLimits = typeof LIMITS

/** Maximum fraction of all connections that one client network may hold. */
const SHARE = 1 / 4

const SWEEP_MILLISECONDS = 50
const LINGER_MILLISECONDS = 500

/** Maximum number of unanswered requests of a connection. */
const MAX_AHEAD = 100
/** Number of waiting requests that start in one tick of the event loop, over all connections. */
const STARTS_PER_TICK = 16

const STATUS: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  ERR_HTTP_REQUEST_TIMEOUT: 408
}

/** A port on which a server listens. */
export interface Listening {
  port: number
  /** `http://<host>:<port>` with the actual address and port. */
  url: string
  /** Sets the listener for requests. Requests before the first call get 503. */
  serve(listener: RequestListener): void
  /** Finishes requests in flight, and refuses new ones. */
  stop(): Promise<void>
}

/**
 * Listens. Closes the connection of a client that exceeds a time limit for headers, body or silence.
 *
 * @param limits - override the defaults, which suit short requests
 * @throws StartError when it cannot listen
 */
export async function listen(serverAddress: ServerAddress, limits: Partial<ListenLimits> = {}): Promise<Listening> {
  const {
    headers,
    request,
    idle: silence,
    keepAlive,
    rest,
    check,
    stop,
    maxConnections,
    perNetwork
  } = { ...LIMITS, ...limits }
  const server = createServer({
    connectionsCheckingInterval: check,
    headersTimeout: headers,
    requestTimeout: request,
    keepAliveTimeout: keepAlive
  })
  server.setTimeout(silence)
  const idle = shareConnections(server, maxConnections, perNetwork)
  let listener: RequestListener = (_req, res) => void res.writeHead(503).end()
  const responses = new WeakMap<Duplex, ServerResponse>()
  answerClientErrors(server, responses)
  server.on(
    'request',
    handleOneAtATime((req, res) => {
      responses.set(req.socket, res)
      // A stopping server reads no further request on this connection.
      if (!server.listening) res.setHeader('Connection', 'close')
      // The time limit starts when the response is complete, not when it is sent, because a client might not read it.
      res.once('prefinish', () => endUnread(req, rest))
      listener(req, res)
    }, idle)
  )
  const { port, address, family } = await bindServer(server, serverAddress)
  return {
    port,
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`,
    serve: (next) => void (listener = next),
    stop: () => waitUntilClosed(server, stop)
  }
}

/**
 * Ends the connection of a request that was answered before its body was read, if the rest of the body takes too long.
 * Otherwise slow clients could occupy all connections for the duration of an upload. The connection is not closed at
 * once, because a reset could destroy the response while the client is still sending.
 */
function endUnread(req: IncomingMessage, milliseconds: number): void {
  if (req.complete) return
  const timer = setTimeout(() => {
    if (!req.complete) req.socket.destroy()
  }, milliseconds)
  req.once('close', () => clearTimeout(timer))
}

function bindServer(
  server: Server,
  { port, host, variable, hostVariable = 'HOST' }: ServerAddress
): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => {
      const sentence = `Cannot listen on ${host}:${port} (${hostVariable}, ${variable}): ${describeReason(error)}`
      reject(new StartError(sentence, { cause: error }))
    })
    server.listen(port, host, () => {
      server.removeAllListeners('error')
      // An error listener keeps the server alive if it cannot accept a connection, such as without file descriptors.
      server.on('error', () => undefined)
      resolve(server.address() as AddressInfo)
    })
  })
}

/** Stops listening, and waits at most `milliseconds` until all responses are sent. */
function waitUntilClosed(server: Server, milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    // A keep-alive connection becomes idle only after the response in flight.
    const idleCheck = setInterval(() => server.closeIdleConnections(), SWEEP_MILLISECONDS)
    const deadline = setTimeout(() => server.closeAllConnections(), milliseconds)
    server.close(() => {
      clearInterval(idleCheck)
      clearTimeout(deadline)
      resolve()
    })
    server.closeIdleConnections()
  })
}

/** Answers malformed HTTP and slow clients with a text. @param responses - last response of each connection */
function answerClientErrors(server: Server, responses: WeakMap<Duplex, ServerResponse>): void {
  const endingSockets = new WeakSet<Duplex>()
  const end = (socket: Duplex, status: number): void => {
    // A connection gets one error response, whatever follows the malformed request.
    if (endingSockets.has(socket)) return
    endingSockets.add(socket)
    const response = responses.get(socket)
    const isSending = response?.headersSent === true && !response.writableFinished
    if (!socket.writable || isSending) socket.destroy()
    else {
      socket.end(formatResponse(status, response))
      // The socket is closed later, because a reset could destroy the response while the client is still sending.
      setTimeout(() => socket.destroy(), LINGER_MILLISECONDS)
    }
  }
  server.on('clientError', (error, socket) => end(socket, STATUS[getErrorCode(error) ?? ''] ?? 400))
  server.on('timeout', (socket: Socket) => {
    const response = responses.get(socket)
    if (response === undefined || response.headersSent) socket.destroy()
    else if (!response.req.complete) end(socket, 408)
    // Otherwise the client waits for the server, and the connection stays open.
  })
}

/** @param response - unsent response of the request that is refused, whose log line has its `X-Request-Id` */
function formatResponse(status: number, response: ServerResponse | undefined): string {
  const text = STATUS_CODES[status] ?? ''
  const requestId = response?.headersSent === false ? response.getHeader('X-Request-Id') : undefined
  return [
    `HTTP/1.1 ${status} ${text}`,
    'Content-Type: text/plain; charset=utf-8',
    'X-Content-Type-Options: nosniff',
    `Content-Length: ${text.length}`,
    'Connection: close',
    ...(requestId === undefined ? [] : [`X-Request-Id: ${String(requestId)}`]),
    '',
    text
  ].join('\r\n')
}

/**
 * Limits the connections of a server. When the maximum is reached, the connection that has been idle longest is closed,
 * so that clients with idle connections cannot block others.
 *
 * @param max - maximum number of open connections; Node closes further ones immediately
 * @param perNetwork - whether an IPv4 address or an IPv6 /64 may hold at most a quarter, and a /24 or /48 a half; also
 *   loopback
 * @returns the idle connections, which the caller adds and deletes; the one that has been idle longest comes first
 */
export function shareConnections(server: Server, max: number, perNetwork: boolean): Set<Socket> {
  const shares = new NetworkShares(Math.ceil(max * SHARE))
  const idle = new Set<Socket>()
  let open = 0
  server.maxConnections = max
  server.on('connection', (socket: Socket) => {
    const network = computeClientNetwork(socket.remoteAddress ?? '')
    const hasRoom = shares.hasRoom(network, 1)
    shares.add(network, 1)
    open += 1
    socket.once('close', () => {
      open -= 1
      idle.delete(socket)
      shares.add(network, -1)
    })
    if (perNetwork && !hasRoom) socket.destroy()
    // Node refuses connections above the maximum before this listener runs, so one place always stays free.
    else if (open >= max) idle.values().next().value?.destroy()
  })
  return idle
}

interface Connection {
  /** Whether a request is running or waiting. Requests that arrive meanwhile wait as well. */
  isBusy: boolean
  /** Functions that start the waiting requests, in order of arrival. */
  readonly waiting: (() => void)[]
}

/**
 * Creates a listener that handles one request of a connection at a time. Node starts all pipelined requests at once. A
 * few kilobytes could then request gigabytes of responses, which wait in memory for earlier responses.
 *
 * A waiting request starts in a later tick. Each tick starts a few requests, round-robin by connection. When they
 * started in the tick of the previous response, 500 connections with 99 requests each blocked all others for 9 s.
 *
 * @param idle - receives each connection that has answered all of its requests, until its next request
 */
export function handleOneAtATime(listener: RequestListener, idle = new Set<Socket>()): RequestListener {
  const connections = new WeakMap<Socket, Connection>()
  const startLater = createTickQueue()
  return (req, res) => {
    const { socket } = req
    const connection = connections.get(socket) ?? { isBusy: false, waiting: [] }
    connections.set(socket, connection)
    const { waiting } = connection
    const startNext = (): void => {
      const next = socket.destroyed ? undefined : waiting.shift()
      if (next === undefined) connection.isBusy = false
      else next()
    }
    const start = (): void => {
      connection.isBusy = true
      res.once('close', () => {
        if (waiting.length > 0) {
          startLater(startNext)
          return
        }
        connection.isBusy = false
        if (!socket.destroyed) idle.add(socket)
      })
      listener(req, res)
    }
    idle.delete(socket)
    // One request of the connection runs, and the others wait.
    if (!connection.isBusy) start()
    else if (waiting.length < MAX_AHEAD - 1) waiting.push(start)
    else socket.destroy()
  }
}

/** Creates a function that queues starts for later ticks. */
function createTickQueue(): (start: () => void) => void {
  const starts: (() => void)[] = []
  const run = (): void => {
    const due = starts.splice(0, STARTS_PER_TICK)
    if (starts.length > 0) setImmediate(run)
    for (const start of due) start()
  }
  return (start) => {
    starts.push(start)
    if (starts.length === 1) setImmediate(run)
  }
}

/** Serves `GET /metrics` on a separate port that is not public. @throws StartError if it cannot listen */
export async function serveMetrics(metrics: Metrics, address: ServerAddress): Promise<Listening> {
  const listening = await listen(address)
  listening.serve((req, res) => {
    if (req.method !== 'GET' || req.url !== '/metrics') {
      res.writeHead(404, { 'Content-Type': 'text/plain; charset=utf-8' }).end('Not found')
      return
    }
    void metrics.read().then(({ contentType, text }) => {
      res.writeHead(200, { 'Content-Type': contentType, 'Cache-Control': 'no-store' }).end(text)
    })
  })
  return listening
}
