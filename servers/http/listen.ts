import { createServer, STATUS_CODES } from 'node:http'
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { ServerAddress } from '../config/read-env.js'
import { getErrorCode, describeReason, StartError } from '../config/startup-error.js'
import type { Metrics } from '../observability/metrics.js'
import { shareConnections } from './connection-shares.js'
import { handleOneAtATime } from './pipelining.js'

/** Time limits for a client in milliseconds, and limits on the number of connections. */
const LIMITS = {
  headers: 10_000,
  /** Time for headers and body. */
  request: 14_000,
  /** Time in which no byte is transferred, while the server waits for the client. */
  idle: 14_000,
  /** Time between two requests. Proxies and clients reuse connections, often for 60 s. */
  keepAlive: 65_000,
  /** Time for the rest of a body after the response. */
  rest: 5_000,
  /** Time between two checks of headers and requests. */
  check: 1_000,
  /** Time for requests in flight when the server stops. */
  stop: 8_000,
  /** Open connections; further ones are closed immediately. Each may hold a body of up to 64 KiB in memory. */
  maxConnections: 4_096,
  /** Whether a client network may have at most a quarter of them. Not behind a proxy, which has only one address. */
  perNetwork: false
}
export type ListenLimits = typeof LIMITS

const SWEEP_MILLISECONDS = 50
const LINGER_MILLISECONDS = 500

const STATUS: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  ERR_HTTP_REQUEST_TIMEOUT: 408
}

/** A port on which a server listens. */
export interface Listening {
  port: number
  /** `http://<host>:<port>` where it really listens. */
  url: string
  /** Serves requests from now on. Earlier ones are answered with 503. */
  serve(listener: RequestListener): void
  /** Finishes requests in flight, and refuses new ones. */
  stop(): Promise<void>
}

/**
 * Listens. The connection of a client that is slow with its headers or its body, or falls silent, is closed.
 *
 * @param limits - where they differ from those of a server of short requests
 * @throws StartError when it cannot listen
 */
export async function listen(where: ServerAddress, limits: Partial<ListenLimits> = {}): Promise<Listening> {
  const { headers, request, idle, keepAlive, rest, check, stop, maxConnections, perNetwork } = { ...LIMITS, ...limits }
  const server = createServer({
    connectionsCheckingInterval: check,
    headersTimeout: headers,
    requestTimeout: request,
    keepAliveTimeout: keepAlive
  })
  server.setTimeout(idle)
  shareConnections(server, maxConnections, perNetwork)
  let listener: RequestListener = (_req, res) => void res.writeHead(503).end()
  const answers = new WeakMap<Duplex, ServerResponse>()
  answerClientErrors(server, answers)
  server.on(
    'request',
    handleOneAtATime((req, res) => {
      answers.set(req.socket, res)
      // Nothing that a client does after this answer would be heard.
      if (!server.listening) res.setHeader('Connection', 'close')
      // When the answer is made, not when it is sent: a client might not read it.
      res.once('prefinish', () => endUnread(req, rest))
      listener(req, res)
    })
  )
  const { port, address, family } = await bound(server, where)
  return {
    port,
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`,
    serve: (next) => void (listener = next),
    stop: () => waitUntilClosed(server, stop)
  }
}

/**
 * Ends the connection of a request that was answered before its body was read, when the rest of it takes too long: a
 * client could let it drip for as long as an upload may take, and such clients together hold all connections. Not at
 * once, because a reset could take the answer from a client that is still sending.
 */
function endUnread(req: IncomingMessage, milliseconds: number): void {
  if (req.complete) return
  const timer = setTimeout(() => {
    if (!req.complete) req.socket.destroy()
  }, milliseconds)
  req.once('close', () => clearTimeout(timer))
}

function bound(server: Server, { port, host, variable, hostVariable = 'HOST' }: ServerAddress): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => {
      const sentence = `Cannot listen on ${host}:${port} (${hostVariable}, ${variable}): ${describeReason(error)}`
      reject(new StartError(sentence, { cause: error }))
    })
    server.listen(port, host, () => {
      server.removeAllListeners('error')
      // A connection that could not be accepted, because files ran out, is lost; the server is not.
      server.on('error', () => undefined)
      resolve(server.address() as AddressInfo)
    })
  })
}

/** Waits until the last response is sent, for at most `milliseconds`. */
function waitUntilClosed(server: Server, milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    // A keep-alive connection becomes idle only after the response in flight.
    const sweep = setInterval(() => server.closeIdleConnections(), SWEEP_MILLISECONDS)
    const tooLate = setTimeout(() => server.closeAllConnections(), milliseconds)
    server.close(() => {
      clearInterval(sweep)
      clearTimeout(tooLate)
      resolve()
    })
    server.closeIdleConnections()
  })
}

/** Answers malformed HTTP and late clients below Express, in text. @param answers - what each connection waits for */
function answerClientErrors(server: Server, answers: WeakMap<Duplex, ServerResponse>): void {
  const ending = new WeakSet<Duplex>()
  const end = (socket: Duplex, status: number): void => {
    // A connection gets one error response, whatever follows the malformed request.
    if (ending.has(socket)) return
    ending.add(socket)
    const answer = answers.get(socket)
    const isAnswering = answer?.headersSent === true && !answer.writableFinished
    if (!socket.writable || isAnswering) socket.destroy()
    else {
      socket.end(formatAnswer(status))
      // The socket closes later, because a reset would destroy the response to a client that is still sending.
      setTimeout(() => socket.destroy(), LINGER_MILLISECONDS)
    }
  }
  server.on('clientError', (error, socket) => end(socket, STATUS[getErrorCode(error) ?? ''] ?? 400))
  server.on('timeout', (socket: Socket) => {
    const answer = answers.get(socket)
    if (answer === undefined || answer.headersSent) socket.destroy()
    else if (!answer.req.complete) end(socket, 408)
    // Else the client waits for the server.
  })
}

function formatAnswer(status: number): string {
  const text = STATUS_CODES[status] ?? ''
  return [
    `HTTP/1.1 ${status} ${text}`,
    'Content-Type: text/plain; charset=utf-8',
    'X-Content-Type-Options: nosniff',
    `Content-Length: ${text.length}`,
    'Connection: close',
    '',
    text
  ].join('\r\n')
}

/** Serves `GET /metrics` on a port of its own, which no proxy has to hide. @throws StartError when it cannot listen */
export async function serveMetrics(metrics: Metrics, where: ServerAddress): Promise<Listening> {
  const listening = await listen(where)
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
