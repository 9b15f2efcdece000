import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { DidAuthConfig } from 'express-did-auth'
import { afterTest } from '../fixtures/after-test.js'
import { resourceKey, testApp, type TestApp } from './test-app.js'

/** Service that issues tokens for other services, on a port of this machine. */
export interface TestIssuer extends TestApp {
  url: string
  /** Paths requested over the network, in order. */
  asked: string[]
  /** Listener that answers instead of the service; undefined: the service answers. */
  answer: RequestListener | undefined
  /** Returns a token for a resource. By default, a user logs in for it. */
  tokenFor: (resource: string, accessToken?: string) => Promise<string>
}

/** Starts a service whose resources are `https://orders.example` and `https://files.example`. It ends with the test. */
export async function startIssuer(config: Partial<DidAuthConfig> = {}): Promise<TestIssuer> {
  const server = createServer((req, res) => {
    issuer.asked.push(req.url ?? '')
    ;(issuer.answer ?? (issuer.app as RequestListener))(req, res)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterTest(() => server.close())
  const url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`
  const test = await testApp({
    serviceUrl: url,
    loginDomains: ['service.example'],
    resources: ['https://orders.example', 'https://files.example'],
    resourceKeys: [resourceKey(1)],
    ...config
  })
  const tokenFor = async (resource: string, accessToken?: string): Promise<string> => {
    const as = accessToken ?? (await test.logIn()).accessToken
    const { body } = await test.post('/resource-token', { resource }, as).expect(200)
    return (body as { accessToken: string }).accessToken
  }
  const issuer: TestIssuer = { ...test, url, asked: [], answer: undefined, tokenFor }
  return issuer
}
