import { sign } from 'node:crypto'
import type { RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { DidAuthConfig } from 'express-did-auth'
import { afterTest } from '../fixtures/after-test.js'
import { serviceWallet } from '../fixtures/fixtures.js'
import { resourceKey, testApp, type TestApp } from './test-app.js'
import { createHttpServer } from './http-server.js'

/** A resource of every test issuer. */
export const ORDERS = 'https://orders.example'

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
  const server = createHttpServer((req, res) => {
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

/** Returns the claims of a token of the issuer. */
export const createPayload = (issuer: TestIssuer, changes: object = {}) => ({
  iss: issuer.url,
  aud: ORDERS,
  sub: serviceWallet.did,
  iat: 1_800_000_000,
  exp: 1_800_000_300,
  ...changes
})

/** Returns the header of a token of the issuer. */
const createHeader = async (issuer: TestIssuer, changes: object = {}) => {
  const [{ kid }] = (await issuer.get('/.well-known/jwks.json').expect(200)).body.keys
  return { alg: 'ES256', typ: 'at+jwt', kid: kid as string, ...changes }
}
/** Encodes a part of a JWT. */
export const encodeJson = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')

/** Returns a token with a valid signature of the issuer's own key. */
export async function signToken(issuer: TestIssuer, payload: object, headerChanges: object = {}): Promise<string> {
  const input = `${encodeJson(await createHeader(issuer, headerChanges))}.${encodeJson(payload)}`
  const key = { key: resourceKey(1) as never, format: 'jwk', dsaEncoding: 'ieee-p1363' } as const
  return `${input}.${sign('sha256', Buffer.from(input), key).toString('base64url')}`
}
