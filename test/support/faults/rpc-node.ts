import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'

/** An RPC node that a test makes up, on a port of its own. */
export interface FakeRpcNode {
  rpcUrl: string
  /** Requests that arrived. */
  count(): number
  stop(): void
}

/** Starts a node that answers as the listener says; what it sends of the request's body is up to it. */
export async function startRpcNode(listener: RequestListener): Promise<FakeRpcNode> {
  let count = 0
  const server = createServer((req, res) => {
    count += 1
    listener(req, res)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    rpcUrl: `http://127.0.0.1:${String(port)}`,
    count: () => count,
    stop: () => {
      server.close()
      server.closeAllConnections()
    }
  }
}

/** The URL of a port where no one listens. */
export async function deadRpcUrl(): Promise<string> {
  const node = await startRpcNode(() => undefined)
  node.stop()
  return node.rpcUrl
}

/** A listener that answers every request with one status and text. */
export function answering(status: number, text: string): RequestListener {
  return (_req, res) => {
    res.writeHead(status, { 'Content-Type': 'application/json' }).end(text)
  }
}

/** A listener that answers every JSON-RPC request with a result of its method, and not at all where there is none. */
export function answeringResults(resultOf: (method: string) => object | undefined): RequestListener {
  return (req, res) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      const { id, method } = JSON.parse(Buffer.concat(chunks).toString()) as { id: number; method: string }
      const result = resultOf(method)
      if (result !== undefined) res.end(JSON.stringify({ jsonrpc: '2.0', id, ...result }))
    })
  }
}

/** A node in front of a real one: the listener answers until the node recovers, and then the real one answers. */
export async function startSwitchedNode(
  realUrl: string,
  away: RequestListener
): Promise<FakeRpcNode & { comeBack(): void }> {
  let isAway = true
  const node = await startRpcNode((req, res) => {
    if (isAway) {
      away(req, res)
      return
    }
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      const headers = { 'Content-Type': 'application/json' }
      fetch(realUrl, { method: 'POST', headers, body: Buffer.concat(chunks) })
        .then(async (answer) => res.writeHead(answer.status, headers).end(await answer.text()))
        .catch(() => res.destroy())
    })
  })
  return {
    ...node,
    comeBack: () => {
      isAway = false
    }
  }
}
