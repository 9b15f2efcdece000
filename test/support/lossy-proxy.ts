import { createServer, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A proxy in front of a server, which loses answers. */
export interface LossyProxy {
  port: number
  /** How many answers were lost so far. */
  lost: () => number
  close: () => void
}

/**
 * Passes requests on through real sockets. An answer that is to be lost has come from the server, so that what it tells of
 * is done; its client's connection is cut instead.
 *
 * @param isLost - asked with the number of each answer, from 1
 */
export async function lossyProxy(serverPort: number, isLost: (number: number) => boolean): Promise<LossyProxy> {
  let [answers, lost] = [0, 0]
  const proxy: Server = createServer((req, res) => {
    const passedOn = request(
      { host: '127.0.0.1', port: serverPort, method: req.method, path: req.url, headers: req.headers },
      (answer) => {
        const chunks: Buffer[] = []
        answer.on('data', (chunk: Buffer) => void chunks.push(chunk))
        answer.on('end', () => {
          answers += 1
          if (isLost(answers)) {
            lost += 1
            req.socket.destroy()
            return
          }
          res.writeHead(answer.statusCode ?? 502, answer.headers)
          res.end(Buffer.concat(chunks))
        })
      }
    )
    passedOn.on('error', () => req.socket.destroy())
    req.pipe(passedOn)
  })
  await new Promise<void>((resolve) => void proxy.listen(0, '127.0.0.1', resolve))
  return {
    port: (proxy.address() as AddressInfo).port,
    lost: () => lost,
    close() {
      proxy.closeAllConnections()
      proxy.close()
    }
  }
}
