import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { answerClientErrors } from './answer-client-errors.js'
import { oneAtATime } from './one-at-a-time.js'
import { reasonOf, StartError } from '../environment/start-error.js'

/** How long a client may take, in milliseconds. */
export interface Patience {
  headers: number
  /** Headers and body. */
  request: number
  /** Without a byte in either direction, while the server waits for the client. */
  idle: number
  /** Between two looks at who is late. */
  check: number
  /** For what is under way when the server stops. */
  stop: number
}

const PATIENCE: Patience = { headers: 10_000, request: 14_000, idle: 14_000, check: 1_000, stop: 8_000 }
const SWEEP_MILLISECONDS = 50

/** Where to listen, and the variable that says so. */
export interface ListenAddress {
  /** 0: any that is free. */
  port: number
  host: string
  variable: string
}

/** A server that listens. */
export interface Running {
  /** `http://<host>:<port>` where it really listens. */
  url: string
  /** Finishes what is under way, refuses what is new, lets go of everything. */
  stop(): Promise<void>
}

/** What answers on the port that was really taken, and how to let go of what it holds after its last answer. */
export type Build = (port: number) => { listener: RequestListener; release: () => Promise<void> }

/**
 * Listens. A client that is slow with its headers or its body, or falls silent, is let go, so that half-open connections
 * hold nothing.
 *
 * @param patience - where it differs from that of a server of short requests
 * @throws StartError when it cannot listen
 */
export async function serve(where: ListenAddress, build: Build, patience: Partial<Patience> = {}): Promise<Running> {
  const { headers, request, idle, check, stop } = { ...PATIENCE, ...patience }
  const server = createServer({
    connectionsCheckingInterval: check,
    headersTimeout: headers,
    requestTimeout: request
  })
  server.setTimeout(idle)
  const { port, address, family } = await listening(server, where)
  const { listener, release } = build(port)
  const answers = new WeakMap<Duplex, ServerResponse>()
  answerClientErrors(server, answers)
  server.on(
    'request',
    oneAtATime((req, res) => {
      answers.set(req.socket, res)
      // Nothing that a client does after this answer would be heard.
      if (!server.listening) res.setHeader('Connection', 'close')
      listener(req, res)
    })
  )
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`,
    stop: async () => {
      await closed(server, stop)
      await release()
    }
  }
}

function listening(server: Server, { port, host, variable }: ListenAddress): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => {
      const sentence = `Cannot listen on ${host}:${port} (HOST, ${variable}): ${reasonOf(error)}`
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

/** Resolves when the last answer is out, at the latest when the time is up. */
function closed(server: Server, milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    // A connection that is kept alive becomes idle only after the answer that is under way.
    const sweep = setInterval(() => {
      server.closeIdleConnections()
    }, SWEEP_MILLISECONDS)
    const tooLate = setTimeout(() => {
      server.closeAllConnections()
    }, milliseconds)
    server.close(() => {
      clearInterval(sweep)
      clearTimeout(tooLate)
      resolve()
    })
    server.closeIdleConnections()
  })
}
