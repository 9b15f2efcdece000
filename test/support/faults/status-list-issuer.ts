import type { RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterTest } from '../fixtures/after-test.js'
import { createHttpServer } from '../servers/http-server.js'

/** Issuer that publishes a list on a port of this machine. */
export interface StatusListIssuer {
  /** URL of the list. Other paths of the origin are answered too. */
  url: string
  /** Paths of the requests so far. */
  asked: string[]
  /** Text of the answer, or the listener that answers. */
  answer: string | RequestListener
}

/** Starts an issuer. It ends with the test. */
export async function startStatusListIssuer(answer: StatusListIssuer['answer'] = ''): Promise<StatusListIssuer> {
  const server = createHttpServer((req, res) => {
    issuer.asked.push(req.url ?? '')
    if (typeof issuer.answer === 'string') res.setHeader('Content-Type', 'text/html').end(issuer.answer)
    else issuer.answer(req, res)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterTest(() => {
    server.close()
    server.closeAllConnections()
  })
  const url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/list`
  const issuer: StatusListIssuer = { url, asked: [], answer }
  return issuer
}
