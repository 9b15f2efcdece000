import type { RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createHttpServer } from '../servers/http-server.js'

/** Fake RPC node on its own port. */
export interface FakeRpcNode {
  rpcUrl: string
  /** Returns the number of requests so far. */
  count(): number
  stop(): void
}

/** Starts a node whose requests the listener answers. The listener also decides whether to read their bodies. */
export async function startRpcNode(listener: RequestListener): Promise<FakeRpcNode> {
  let count = 0
  const server = createHttpServer((req, res) => {
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

/** Returns the URL of a port without a listener. */
export async function deadRpcUrl(): Promise<string> {
  const node = await startRpcNode(() => undefined)
  node.stop()
  return node.rpcUrl
}

/** Returns a listener that answers every request with one status and text. */
export function answering(status: number, text: string): RequestListener {
  return (_req, res) => {
    res.writeHead(status, { 'Content-Type': 'application/json' }).end(text)
  }
}

/** Returns a listener that answers JSON-RPC requests by their method. A method without a result gets no answer. */
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

/** Starts a node in front of a real one. The listener answers until `comeBack` is called, and then the real node. */
export async function startSwitchedNode(
  realUrl: string,
  listener: RequestListener
): Promise<FakeRpcNode & { comeBack(): void }> {
  let isUnavailable = true
  const node = await startRpcNode((req, res) => {
    if (isUnavailable) {
      listener(req, res)
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
      isUnavailable = false
    }
  }
}
