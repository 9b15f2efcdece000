import { createServer, request, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'

/** What came back, as text. */
export interface RawAnswer {
  status: number
  text: string
}

/** Asks with a path that is sent just as it is: `fetch` and supertest would resolve or encode it. */
export async function rawRequest(
  listener: RequestListener,
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body = '{"content":"a"}'
): Promise<RawAnswer> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const hasBody = method === 'POST' || method === 'PUT'
  try {
    return await new Promise((resolve, reject) => {
      const req = request({ port, host: '127.0.0.1', method, path, headers, agent: false }, (res) => {
        let text = ''
        res.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
        res.on('end', () => {
          resolve({ status: res.statusCode ?? 0, text })
        })
      })
      req.on('error', reject)
      req.end(hasBody ? body : undefined)
    })
  } finally {
    server.close()
  }
}
