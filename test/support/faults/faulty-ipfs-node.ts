import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { createServer as createTcpServer, type AddressInfo, type Server as TcpServer, type Socket } from 'node:net'
import {
  answerWithFault,
  faultsBefore,
  ipfsVerbs,
  send,
  type Answer,
  type IpfsFault,
  type IpfsVerb
} from './ipfs-faults.js'
import { carryOut, isAllowed, plain } from './ipfs-verdicts.js'
import { createHttpServer } from '../servers/http-server.js'

/** Small IPFS node that works correctly until a test sets a fault. Content is in memory, and all pins are recursive. */
export interface FaultyIpfsNode {
  url: string
  /** Pinned CIDs. A test may change them. */
  pins: Set<string>
  /** Added contents, pinned or not; a node stores content for a while after its pin is removed. */
  contents: Map<string, Buffer>
  /** Number of completely received requests by verb. */
  calls: Record<IpfsVerb, number>
  /** Returns the number of requests on open connections whose answer is not complete. */
  underWay(): number
  /** Returns the number of requests that followed a redirection of the fault 'redirects'. */
  redirected(): number
  /** Starts a fault. A fault of the connection also breaks the answers that are being sent. */
  fail(fault: IpfsFault): Promise<void>
  /** Answers every request with this from now on, and executes none. */
  say(status: number, json: string): void
  /** Ends the fault: the node works correctly again. */
  heal(): Promise<void>
  stop(): Promise<void>
}

export interface FaultyNodeOptions {
  fault?: IpfsFault
  /** Delay of answers by 'is slow', in milliseconds. Default: 1000. */
  slowMilliseconds?: number
  /** `user:password`, if the node requires them. */
  credentials?: string
  /** Whether a second request resets its connection, as if the node had just closed an idle connection. */
  endsKept?: boolean
  /**
   * Called before a request is executed, and again before it is answered. The node waits for the returned promise, so
   * that a test can kill a process at exactly that moment. Not called if a fault prevents the execution.
   */
  onCall?: (verb: IpfsVerb, phase: 'before' | 'after') => unknown
}

/** Starts a node on a free port of this machine. No other process gets the port while the node refuses connections. */
export async function startFaultyNode(options: FaultyNodeOptions = {}): Promise<FaultyIpfsNode> {
  const { slowMilliseconds = 1_000, credentials, endsKept = false, onCall } = options
  const pins = new Set<string>()
  const contents = new Map<string, Buffer>()
  const calls = Object.fromEntries(ipfsVerbs.map((verb) => [verb, 0])) as Record<IpfsVerb, number>
  let fault: IpfsFault | undefined
  let fixedAnswer: Answer | undefined
  let redirected = 0

  async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url ?? '/', 'http://node')
    const verb = ipfsVerbs.find((name) => url.pathname === `/api/v0/${name}`)
    if (req.method !== 'POST' || verb === undefined) {
      send(res, plain(404, '404 page not found'))
      return
    }
    const body = await readBody(req)
    if (body === undefined) return
    calls[verb] += 1
    const surroundings = {
      req,
      res,
      verb,
      slowMilliseconds,
      redirectUrl: `http://127.0.0.1:${readPort(redirectTarget)}/api/v0/${verb}`
    }
    const failure = fault
    if (fixedAnswer !== undefined) {
      send(res, fixedAnswer)
      return
    }
    if (failure !== undefined && faultsBefore.some((before) => before === failure)) {
      answerWithFault[failure]({ ...surroundings, answer: plain(200, '') })
      return
    }
    await onCall?.(verb, 'before')
    const correctAnswer = isAllowed(req, credentials)
      ? carryOut(verb, url, body, { pins, contents })
      : plain(401, 'Unauthorized')
    await onCall?.(verb, 'after')
    if (failure === undefined) send(res, correctAnswer)
    else answerWithFault[failure]({ ...surroundings, answer: correctAnswer })
  }

  const openResponses = new Set<ServerResponse>()
  const usedSockets = new WeakSet<Socket>()
  const http = createHttpServer((req, res) => {
    if (endsKept && usedSockets.has(req.socket)) {
      req.socket.resetAndDestroy()
      return
    }
    usedSockets.add(req.socket)
    openResponses.add(res)
    res.on('error', () => undefined).once('close', () => openResponses.delete(res))
    void answer(req, res)
  })
  const redirectTarget = createHttpServer((_req, res) => {
    redirected += 1
    send(res, plain(200, '{}'))
  })
  const tcpSockets = new Set<Socket>()
  const noHttp = createTcpServer((socket) => {
    tcpSockets.add(socket)
    socket.once('close', () => tcpSockets.delete(socket))
    socket.on('error', () => undefined).write('SSH-2.0-OpenSSH_9.2\r\n')
  })
  await listen(redirectTarget)
  const port = await listenApart(http)

  /** Sets the fault. `http`, `noHttp` or neither of them then listens on the port. */
  async function setFault(next: IpfsFault | undefined): Promise<void> {
    fault = next
    fixedAnswer = undefined
    for (const socket of tcpSockets) socket.destroy()
    const nextServer = next === 'refuses' ? undefined : next === 'speaks no HTTP' ? noHttp : http
    for (const server of [http, noHttp]) if (server !== nextServer) await close(server)
    if (nextServer?.listening === false) await listen(nextServer, port)
  }
  await setFault(options.fault)

  return {
    url: `http://127.0.0.1:${port}`,
    pins,
    contents,
    calls,
    underWay: () => openResponses.size,
    redirected: () => redirected,
    fail: setFault,
    say: (status, text) => {
      fixedAnswer = { status, type: 'application/json', body: Buffer.from(text) }
    },
    heal: () => setFault(undefined),
    async stop() {
      for (const socket of tcpSockets) socket.destroy()
      await Promise.all([http, noHttp, redirectTarget].map(close))
    }
  }
}

/** Reads the body of a request; undefined: the client closed the connection before its end. */
async function readBody(req: IncomingMessage): Promise<Buffer | undefined> {
  try {
    return Buffer.concat((await req.toArray()) as Buffer[])
  } catch {
    return undefined
  }
}

function listen(server: Server | TcpServer, port = 0): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject).listen(port, '127.0.0.1', () => {
      server.off('error', reject)
      resolve()
    })
  })
}

/**
 * Listens on a port below those that the system assigns, and returns it. While the node refuses connections, no other
 * server can then be given the port and answer instead.
 */
async function listenApart(server: Server): Promise<number> {
  for (;;) {
    const port = 10_240 + Math.floor(Math.random() * 20_000)
    try {
      await listen(server, port)
      return port
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    }
  }
}

/** Closes a server with all its connections, including those that wait for an answer. */
function close(server: Server | TcpServer): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    if ('closeAllConnections' in server) server.closeAllConnections()
  })
}

function readPort(server: Server | TcpServer): number {
  return (server.address() as AddressInfo).port
}
