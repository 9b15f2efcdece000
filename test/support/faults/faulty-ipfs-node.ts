import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
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

/** A small IPFS node, honest until it is told to fail. Content is in memory, pins are recursive ones. */
export interface FaultyIpfsNode {
  url: string
  /** Pinned cids. The test may change them. */
  pins: Set<string>
  /** Added contents, pinned or not; a node stores content for a while after its pin is gone. */
  contents: Map<string, Buffer>
  /** Requests that arrived whole, by verb. */
  calls: Record<IpfsVerb, number>
  /** Requests whose answer is not over, and whose connection is open. */
  underWay(): number
  /** Requests that arrived where 'redirects' sends them. */
  redirected(): number
  /** Starts a fault. A fault of the connection also breaks the answers that are under way. */
  fail(fault: IpfsFault): Promise<void>
  /** Answers every order with this from now on, and does not carry it out. */
  say(status: number, json: string): void
  /** Ends the fault: the node is honest again. */
  heal(): Promise<void>
  stop(): Promise<void>
}

export interface FaultyNodeOptions {
  fault?: IpfsFault
  /** How late 'is slow' answers. */
  slowMilliseconds?: number
  /** `user:password`, when the node wants one. */
  credentials?: string
  /** Resets a connection when a second request arrives: the node had closed it as idle at the same moment. */
  endsKept?: boolean
  /**
   * Called when a request is there and not yet carried out, and again before it is answered. The node waits for what it
   * returns: a test can kill a process at just that moment. Not called when a fault keeps the order from being carried
   * out.
   */
  onCall?: (verb: IpfsVerb, phase: 'before' | 'after') => unknown
}

/** Starts a node on a free port of this machine, which stays its own. */
export async function startFaultyNode(options: FaultyNodeOptions = {}): Promise<FaultyIpfsNode> {
  const { slowMilliseconds = 1_000, credentials, endsKept = false, onCall } = options
  const pins = new Set<string>()
  const contents = new Map<string, Buffer>()
  const calls = Object.fromEntries(ipfsVerbs.map((verb) => [verb, 0])) as Record<IpfsVerb, number>
  let fault: IpfsFault | undefined
  let saying: Answer | undefined
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
    const around = {
      req,
      res,
      verb,
      slowMilliseconds,
      redirectUrl: `http://127.0.0.1:${readPort(elsewhere)}/api/v0/${verb}`
    }
    const failure = fault
    if (saying !== undefined) {
      send(res, saying)
      return
    }
    if (failure !== undefined && faultsBefore.some((before) => before === failure)) {
      answerWithFault[failure]({ ...around, answer: plain(200, '') })
      return
    }
    await onCall?.(verb, 'before')
    const honest = isAllowed(req, credentials)
      ? carryOut(verb, url, body, { pins, contents })
      : plain(401, 'Unauthorized')
    await onCall?.(verb, 'after')
    if (failure === undefined) send(res, honest)
    else answerWithFault[failure]({ ...around, answer: honest })
  }

  const underWay = new Set<ServerResponse>()
  const used = new WeakSet<Socket>()
  const http = createServer((req, res) => {
    if (endsKept && used.has(req.socket)) {
      req.socket.resetAndDestroy()
      return
    }
    used.add(req.socket)
    underWay.add(res)
    res.on('error', () => undefined).once('close', () => underWay.delete(res))
    void answer(req, res)
  })
  const elsewhere = createServer((_req, res) => {
    redirected += 1
    send(res, plain(200, '{}'))
  })
  const talking = new Set<Socket>()
  const noHttp = createTcpServer((socket) => {
    talking.add(socket)
    socket.once('close', () => talking.delete(socket))
    socket.on('error', () => undefined).write('SSH-2.0-OpenSSH_9.2\r\n')
  })
  await listen(elsewhere)
  const port = await listenApart(http)

  /** One of the two listens on the port, or neither. */
  async function become(next: IpfsFault | undefined): Promise<void> {
    fault = next
    saying = undefined
    for (const socket of talking) socket.destroy()
    const nextServer = next === 'refuses' ? undefined : next === 'speaks no HTTP' ? noHttp : http
    for (const server of [http, noHttp]) if (server !== nextServer) await close(server)
    if (nextServer?.listening === false) await listen(nextServer, port)
  }
  await become(options.fault)

  return {
    url: `http://127.0.0.1:${port}`,
    pins,
    contents,
    calls,
    underWay: () => underWay.size,
    redirected: () => redirected,
    fail: become,
    say: (status, text) => {
      saying = { status, type: 'application/json', body: Buffer.from(text) }
    },
    heal: () => become(undefined),
    async stop() {
      for (const socket of talking) socket.destroy()
      await Promise.all([http, noHttp, elsewhere].map(close))
    }
  }
}

/** Undefined when the client was gone before its end. */
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
 * Listens on a port below those that a system gives away, and answers which: while the node refuses, no one else may be
 * given its port, and answer in its place.
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

/** Closes connections as well, including those that wait for an answer. */
function close(server: Server | TcpServer): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    if ('closeAllConnections' in server) server.closeAllConnections()
  })
}

function readPort(server: Server | TcpServer): number {
  return (server.address() as AddressInfo).port
}
