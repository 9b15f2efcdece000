import { describe, expect, it } from '@jest/globals'
import { generateKeyPairSync, verify as verifySignature } from 'node:crypto'
import type { RequestListener } from 'node:http'
import { MachineClient, createMachineKey, machineToken } from 'express-did-auth-client/machine'
import type { MachineKey } from 'express-did-auth-client/machine'
import { RelayClient } from 'express-did-auth-client/relay'
import { VaultClient } from 'express-did-auth-client/vault'
import { decodeJwt, decodeProtectedHeader, importJWK, jwtVerify } from 'jose'
import { pureCurve } from '../../src/adapters/curve-pure.js'
import { expectClientError, startAnsweringServer, startServer } from '../support/fixtures/client-error.js'
import { TestClock } from '../support/fixtures/fixtures.js'

const ORDERS = 'https://orders.example'
const WELL_KNOWN = '/.well-known/oauth-authorization-server'
const HEX_KEY = '11'.repeat(32)
const did = 'did:jwk:x'

/** Service with hand-made answers, at a path of its own. */
interface FakeService {
  url: string
  /** Requests for metadata and tokens, in order. */
  asked: string[]
  /** Forms of the requests for tokens. */
  forms: URLSearchParams[]
  answerMetadata: RequestListener
  answerToken: RequestListener
}

const answerJson = (body: object, status = 200, headers = {}): RequestListener =>
  startAnsweringServer(status, JSON.stringify(body), { 'Content-Type': 'application/json', ...headers })

/** Starts a service whose metadata are at `metadataPath`. Its tokens expire after 300 s, and have a number. */
async function startService(path = '', metadataPath = `${WELL_KNOWN}${path}`): Promise<FakeService> {
  const origin = await startServer((req, res) => {
    service.asked.push(req.url ?? '')
    if (req.url === metadataPath) service.answerMetadata(req, res)
    else if (req.url !== `${path}/token`) startAnsweringServer(404, '<p>')(req, res)
    else {
      let text = ''
      req.on('data', (piece: Buffer) => (text += piece.toString()))
      req.on('end', () => {
        service.forms.push(new URLSearchParams(text))
        service.answerToken(req, res)
      })
    }
  })
  const url = origin + path
  const service: FakeService = {
    url,
    asked: [],
    forms: [],
    answerMetadata: answerJson({ issuer: url, token_endpoint: `${url}/token` }),
    answerToken: (req, res) =>
      answerJson({ access_token: `token ${service.forms.length}`, token_type: 'Bearer', expires_in: 300 })(req, res)
  }
  return service
}

const request = (service: FakeService, changes: object = {}): Promise<{ accessToken: string }> =>
  machineToken({ url: service.url, did, privateKey: HEX_KEY, resource: ORDERS, ...changes })

/** Requests a token with a key, and returns the assertion. */
async function makeAssertion(key: MachineKey): Promise<string> {
  const service = await startService()
  await machineToken({ url: service.url, did, ...key, resource: ORDERS })
  return service.forms[0]?.get('client_assertion') ?? ''
}

describe('machineToken', () => {
  it('sends an assertion for the issuer of the metadata, and returns the token', async () => {
    const clock = new TestClock()
    const service = await startService()
    const token = await request(service, { clock })
    expect(token).toEqual({ accessToken: 'token 1', expiresInSeconds: 300 })
    const { client_assertion: assertion, ...form } = Object.fromEntries(service.forms[0] ?? [])
    expect(form).toEqual({
      grant_type: 'client_credentials',
      resource: ORDERS,
      client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
    })
    expect(decodeJwt(assertion ?? '')).toEqual({
      iss: did,
      sub: did,
      aud: service.url,
      iat: 1_800_000_000,
      exp: 1_800_000_300,
      jti: expect.stringMatching(/^[0-9a-f]{32}$/)
    })
  })

  it('signs by ES256 with the key of createMachineKey, and by the same key of WebCrypto', async () => {
    const { privateKey } = await createMachineKey()
    const { d: _d, ...publicKey } = privateKey
    const rule = { name: 'ECDSA', namedCurve: 'P-256' }
    const cryptoKey = await crypto.subtle.importKey('jwk', privateKey as object, rule, false, ['sign'])
    for (const key of [privateKey, cryptoKey]) {
      const assertion = await makeAssertion({ privateKey: key })
      expect(decodeProtectedHeader(assertion)).toEqual({ alg: 'ES256', typ: 'JWT' })
      await jwtVerify(assertion, await importJWK(publicKey as object, 'ES256'))
    }
  })

  it('signs by EdDSA with a key of Ed25519', async () => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519')
    const jwk = privateKey.export({ format: 'jwk' }) as object
    const cryptoKey = await crypto.subtle.importKey('jwk', jwk, 'Ed25519', false, ['sign'])
    for (const key of [jwk, cryptoKey]) {
      const assertion = await makeAssertion({ privateKey: key })
      expect(decodeProtectedHeader(assertion).alg).toBe('EdDSA')
      await jwtVerify(assertion, publicKey)
    }
  })

  it('signs by ES256K with a hexadecimal key, or a JWK of secp256k1', async () => {
    const point = pureCurve.publicKeyOf(Buffer.from(HEX_KEY, 'hex'))!
    const [x, y, d] = [point.subarray(1, 33), point.subarray(33), Buffer.from(HEX_KEY, 'hex')].map((part) =>
      Buffer.from(part).toString('base64url')
    )
    const jwk = { kty: 'EC', crv: 'secp256k1', x, y, d }
    for (const key of [HEX_KEY, `0x${HEX_KEY}`, jwk]) {
      const assertion = await makeAssertion({ privateKey: key })
      expect(decodeProtectedHeader(assertion).alg).toBe('ES256K')
      const [input, signature] = [assertion.replace(/\.[^.]*$/, ''), Buffer.from(assertion.split('.')[2]!, 'base64url')]
      const publicKey = { key: { ...jwk, d: undefined } as object, format: 'jwk', dsaEncoding: 'ieee-p1363' } as const
      expect(verifySignature('sha256', Buffer.from(input), publicKey as never, signature)).toBe(true)
    }
  })

  it('signs with a function, such as one of a key management service', async () => {
    const signed: string[] = []
    const sign = (input: Uint8Array): Uint8Array => {
      signed.push(new TextDecoder().decode(input))
      return new Uint8Array(64)
    }
    const assertion = await makeAssertion({ alg: 'ES256', sign })
    expect(`${signed[0]}.${'A'.repeat(86)}`).toBe(assertion)
  })

  it.each<[string, unknown]>([
    ['a short hexadecimal key', '11'],
    ['a PEM', '-----BEGIN PRIVATE KEY-----'],
    ['a JWK of P-384', { kty: 'EC', crv: 'P-384', x: 'a', y: 'a', d: 'a' }],
    ['a JWK of secp256k1 without d', { kty: 'EC', crv: 'secp256k1', x: 'a', y: 'a' }],
    ['zeros', '00'.repeat(32)],
    ['a JWK of P-256 without d', { kty: 'EC', crv: 'P-256', x: 'a', y: 'a' }],
    ['an RSA key', { kty: 'RSA', n: 'a', e: 'a', d: 'a' }],
    ['nothing', undefined]
  ])('throws a TypeError for %s, and sends nothing', async (_what, privateKey) => {
    const service = await startService()
    await expect(request(service, { privateKey })).rejects.toThrow(TypeError)
    expect(service.asked).toEqual([])
  })

  it('finds the metadata of a service with a path at the root of the origin, else below the path', async () => {
    const [atRoot, below] = [await startService('/api'), await startService('/api', `/api${WELL_KNOWN}`)]
    await Promise.all([request(atRoot, { url: `${atRoot.url}/` }), request(below)])
    expect(atRoot.asked).toEqual([`${WELL_KNOWN}/api`, '/api/token'])
    expect(below.asked).toEqual([`${WELL_KNOWN}/api`, `/api${WELL_KNOWN}`, '/api/token'])
  })

  it('accepts metadata of another issuer only with `serviceUrl`, for which it then signs', async () => {
    const service = await startService()
    const serviceUrl = 'http://auth.example'
    service.answerMetadata = answerJson({ issuer: serviceUrl, token_endpoint: `${service.url}/token` })
    await expectClientError(request(service), {
      code: 'PROTOCOL',
      message: expect.stringMatching(/issuer http:..auth.example instead of/)
    })
    await request(service, { serviceUrl })
    expect(decodeJwt(service.forms[0]?.get('client_assertion') ?? '').aud).toBe(serviceUrl)
  })

  it.each<[string, (service: FakeService) => RequestListener]>([
    ['404', () => startAnsweringServer(404, 'Not found')],
    ['HTML', () => startAnsweringServer(200, '<p>Hello')],
    ['a redirect', ({ url }) => startAnsweringServer(302, '', { Location: `${url}/other` })],
    ['no token_endpoint', ({ url }) => answerJson({ issuer: url })],
    ['a token_endpoint that is no URL', ({ url }) => answerJson({ issuer: url, token_endpoint: '/token' })],
    [
      'more than 64 KiB',
      ({ url }) => answerJson({ issuer: url, token_endpoint: `${url}/token`, a: 'a'.repeat(65_536) })
    ]
  ])('throws PROTOCOL for metadata that are %s, and sends no assertion', async (_what, answer) => {
    const service = await startService()
    service.answerMetadata = answer(service)
    await expectClientError(request(service), { code: 'PROTOCOL', retryable: false })
    expect(service.asked).toEqual([WELL_KNOWN])
  })

  it('refuses an endpoint without https of a service with https', async () => {
    const metadata = { issuer: 'https://auth.example', token_endpoint: 'http://auth.example/token' }
    const fetch = async (): Promise<Response> => Response.json(metadata)
    const options = { url: 'https://auth.example', did, privateKey: HEX_KEY, resource: ORDERS, fetch }
    await expectClientError(machineToken(options), { code: 'PROTOCOL' })
  })

  it.each(['invalid_client', 'invalid_target', 'unauthorized_client'])('throws REFUSED for %s', async (error) => {
    const service = await startService()
    service.answerToken = answerJson({ error, error_description: 'Not you' }, 400)
    const message = `POST ${service.url}/token: 400 ${error} Not you`
    await expectClientError(request(service), { code: 'REFUSED', status: 400, serverCode: error, message })
  })

  it.each([
    [429, 'RATE_LIMITED'],
    [503, 'UNAVAILABLE']
  ])('throws an error that can be retried for %d, with the time of Retry-After', async (status, code) => {
    const service = await startService()
    const fields = { code, status, retryable: true, retryAfterSeconds: 7 }
    service.answerToken = answerJson({ error: 'temporarily_unavailable' }, status, { 'Retry-After': '7' })
    await expectClientError(request(service), { ...fields, serverCode: 'temporarily_unavailable' })
    service.answerMetadata = startAnsweringServer(status, 'Busy', { 'Retry-After': '7' })
    await expectClientError(request(service), fields)
  })

  it.each<[string, RequestListener]>([
    ['HTML', startAnsweringServer(200, '<p>Hello')],
    ['a redirect', startAnsweringServer(307, '', { Location: 'https://evil.example/token' })],
    ['no token', answerJson({ token_type: 'Bearer', expires_in: 300 })],
    ['another type of token', answerJson({ access_token: 'a', token_type: 'DPoP', expires_in: 300 })],
    ['no lifetime', answerJson({ access_token: 'a', token_type: 'Bearer' })]
  ])('throws PROTOCOL for a token answer that is %s', async (_what, answer) => {
    const service = await startService()
    service.answerToken = answer
    await expectClientError(request(service), { code: 'PROTOCOL' })
  })

  it('throws UNAVAILABLE if the service does not answer in time, or not at all', async () => {
    const service = await startService()
    service.answerToken = () => undefined
    await expectClientError(request(service, { timeoutSeconds: 0.05 }), { code: 'UNAVAILABLE', retryable: true })
    const fetch = (): Promise<Response> => Promise.reject(new TypeError('fetch failed'))
    await expectClientError(request(service, { fetch }), { code: 'UNAVAILABLE' })
  })
})

describe('createMachineKey', () => {
  it('returns a new P-256 key with its did:key each time', async () => {
    const [one, other] = [await createMachineKey(), await createMachineKey()]
    expect(one.did).toMatch(/^did:key:zDn[1-9A-HJ-NP-Za-km-z]{46}$/)
    expect(one.privateKey).toEqual({
      kty: 'EC',
      crv: 'P-256',
      x: expect.stringMatching(/^[\w-]{43}$/),
      y: expect.stringMatching(/^[\w-]{43}$/),
      d: expect.stringMatching(/^[\w-]{43}$/)
    })
    expect(other.did).not.toBe(one.did)
  })
})

describe('MachineClient', () => {
  const startMachine = async () => {
    const [service, clock] = [await startService(), new TestClock()]
    const machine = new MachineClient({ url: service.url, did, privateKey: HEX_KEY, clock })
    return { service, clock, machine }
  }

  it('requests one token for concurrent callers, and another for another resource', async () => {
    const { service, machine } = await startMachine()
    const tokens = await Promise.all(Array.from({ length: 10 }, () => machine.tokenFor(ORDERS)))
    expect(new Set(tokens)).toEqual(new Set(['token 1']))
    expect(await machine.tokenFor('https://files.example')).toBe('token 2')
    expect(service.forms.map((form) => form.get('resource'))).toEqual([ORDERS, 'https://files.example'])
  })

  it('reuses a token of 300 s until 30 s before its expiry', async () => {
    const { clock, machine } = await startMachine()
    await machine.tokenFor(ORDERS)
    clock.seconds += 269
    expect(await machine.tokenFor(ORDERS)).toBe('token 1')
    clock.seconds += 1
    expect(await machine.tokenFor(ORDERS)).toBe('token 2')
  })

  it('replaces a refused token once, and retries after a failed request', async () => {
    const { service, machine } = await startMachine()
    const refused = await machine.tokenFor(ORDERS)
    expect(await Promise.all([machine.tokenFor(ORDERS, refused), machine.tokenFor(ORDERS, refused)])).toEqual([
      'token 2',
      'token 2'
    ])
    const { answerToken } = service
    service.answerToken = answerJson({ error: 'temporarily_unavailable' }, 503)
    await expectClientError(machine.tokenFor(ORDERS, 'token 2'), { code: 'UNAVAILABLE' })
    service.answerToken = answerToken
    expect(await machine.tokenFor(ORDERS)).toBe('token 4')
  })

  it('is the `auth` of the clients of relay and vault, which send its token', async () => {
    const { machine } = await startMachine()
    const seen: string[] = []
    const url = await startServer((req, res) => {
      seen.push(`${req.method ?? ''} ${req.url ?? ''} ${req.headers.authorization ?? ''}`)
      res.writeHead(507, { 'Content-Type': 'application/problem+json' }).end('{"code":"ERR_STORAGE_FULL"}')
    })
    const vault = new VaultClient({ auth: machine, resource: 'https://vault.example', url })
    await expectClientError(vault.add('notes', 'Hello'), { code: 'FULL' })
    const relay = new RelayClient({ auth: machine, resource: 'https://relay.example', url })
    await expectClientError(relay.send('Hello'), { code: 'FULL' })
    expect(vault.did).toBe(did)
    expect(seen).toEqual(['POST /notes Bearer token 1', 'POST /file Bearer token 2'])
  })

  it('throws a TypeError for a URL that is not http(s)', () => {
    expect(() => new MachineClient({ url: 'auth.example', did, privateKey: HEX_KEY })).toThrow(TypeError)
  })
})
