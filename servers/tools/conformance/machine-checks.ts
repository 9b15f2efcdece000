import { generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import { isObject, parseHttpUrl, RESOURCE_TOKEN_SECONDS } from 'express-did-auth/server-kit'
import { describe, readClaims, type Exchange, type ServiceUnderTest } from '../service-under-test.js'
import { assertNotStored, assertOneWins, assertThat, NotApplicable, type Check } from './rules.js'

const FORM = 'application/x-www-form-urlencoded'
const METADATA_PATH = '/.well-known/oauth-authorization-server'

/** Members of an assertion, and of its header, that a check changes. */
type Changes = { claims?: Record<string, unknown>; header?: Record<string, unknown> }

/** A machine with a new key, and its assertions for one service. */
interface Machine {
  did: string
  assert(changes?: Changes): string
}

/** Checks of the login of machines, for services whose discovery document names a token endpoint. */
export const machineChecks = {
  'machine-login': async (service) => {
    const { machine, exchange } = await logInMachine(service)
    assertNotStored(exchange)
    const { access_token: token, token_type: type } = exchange.json
    assertThat(type === 'Bearer', `the token has the type ${String(type)}, expected Bearer`)
    const { sub, client_id, aud, iat, exp, sid } = readClaims(String(token))
    const isForMachine = sub === machine.did && client_id === machine.did
    assertThat(isForMachine, `the token has sub ${String(sub)} and client_id ${String(client_id)}, expected the DID`)
    assertThat(aud === findResource(service), `the token has aud ${String(aud)}, expected the resource`)
    assertThat(sid === undefined, 'the token has a sid, but a machine has no session')
    const seconds = Number(exp) - Number(iat)
    assertThat(seconds <= RESOURCE_TOKEN_SECONDS, `the token is valid for ${seconds} s`)
  },
  'machine-single-use': async (service) => {
    const { machine } = await logInMachine(service)
    const assertion = machine.assert()
    await assertOneWins('copies of an assertion', () => sendAssertion(service, assertion))
    assertRefused(await sendAssertion(service, assertion), 'invalid_client', 'a used assertion')
  },
  'machine-wrong-signature': async (service) => {
    const { machine, nowSeconds } = await logInMachine(service)
    const other = createMachine(service, nowSeconds)
    const { did: iss } = machine
    const stolen = { iss, sub: iss }
    const unsigned = machine.assert({ header: { alg: 'none' } }).replace(/[^.]+$/, '')
    const invalid = [other.assert({ claims: stolen }), machine.assert({ header: { alg: 'ES256K' } }), unsigned, 'x']
    for (const assertion of invalid) {
      assertRefused(await sendAssertion(service, assertion), 'invalid_client', 'an assertion that its key did not sign')
    }
  },
  'machine-wrong-claims': async (service) => {
    const { machine, nowSeconds } = await logInMachine(service)
    const invalid: Record<string, unknown>[] = [
      { aud: 'https://other.example' },
      { sub: 'did:web:other.example' },
      { exp: nowSeconds - 90 },
      { exp: nowSeconds + 3_600 },
      { exp: undefined },
      { jti: undefined }
    ]
    for (const claims of invalid) {
      const exchange = await sendAssertion(service, machine.assert({ claims }))
      assertRefused(exchange, 'invalid_client', `an assertion with ${JSON.stringify(claims)}`)
    }
  },
  'machine-wrong-request': async (service) => {
    const { machine } = await logInMachine(service)
    const assertion = machine.assert()
    const unknown = { resource: 'https://unknown.example' }
    assertRefused(await sendAssertion(service, assertion, unknown), 'invalid_target', 'an unknown resource')
    const password = { grant_type: 'password' }
    assertRefused(await sendAssertion(service, assertion, password), 'unsupported_grant_type', 'another grant')
    const twice = `${createForm(service, assertion)}&resource=x`
    assertRefused(await sendForm(service, twice), 'invalid_request', 'a parameter twice')
    assertAccepted(await sendAssertion(service, assertion), 'the assertion after these refusals')
  },
  'machine-metadata': async (service) => {
    const exchange = await service.send('GET', METADATA_PATH)
    const { issuer, token_endpoint: endpoint, jwks_uri: keys } = exchange.json
    const { serviceUrl, token_endpoint: expected, jwks_uri: expectedKeys } = service.discovery
    const shown = `${describe(exchange)} with issuer ${String(issuer)}, token_endpoint ${String(endpoint)}`
    const isSame = issuer === serviceUrl && endpoint === expected && keys === expectedKeys
    assertThat(isSame, `${shown}, jwks_uri ${String(keys)}, expected the URLs of the discovery document`)
  }
} satisfies Readonly<Record<string, Check>>

/** Whether the discovery document of a service names a token endpoint and a resource. */
export function acceptsMachines({ discovery: { token_endpoint: endpoint, resources } }: ServiceUnderTest): boolean {
  return typeof endpoint === 'string' && Array.isArray(resources) && resources.length > 0
}

/** Logs a new machine in. @throws NotApplicable if the service accepts only certain machines */
async function logInMachine(
  service: ServiceUnderTest
): Promise<{ machine: Machine; exchange: Exchange; nowSeconds: number }> {
  // The clock of the service counts: a token of a user has its time.
  const { iat } = readClaims((await service.logIn()).accessToken)
  const nowSeconds = Number(iat)
  const machine = createMachine(service, nowSeconds)
  const exchange = await sendAssertion(service, machine.assert())
  if (exchange.json.error === 'unauthorized_client') throw new NotApplicable('the service refuses new machines')
  assertAccepted(exchange, 'a login of a machine')
  return { machine, exchange, nowSeconds }
}

function createMachine({ discovery }: ServiceUnderTest, nowSeconds: number): Machine {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const did = `did:jwk:${encode(publicKey.export({ format: 'jwk' }))}`
  const ids = { iss: did, sub: did, aud: String(discovery.serviceUrl) }
  return {
    did,
    assert({ claims, header } = {}) {
      const payload = { ...ids, jti: randomUUID(), exp: nowSeconds + 60, ...claims }
      const input = `${encode({ alg: 'ES256', ...header })}.${encode(payload)}`
      const signature = sign('sha256', Buffer.from(input), { key: privateKey, dsaEncoding: 'ieee-p1363' })
      return `${input}.${signature.toString('base64url')}`
    }
  }
}

const findResource = ({ discovery: { resources } }: ServiceUnderTest): string =>
  Array.isArray(resources) ? String(resources[0]) : ''

function createForm(service: ServiceUnderTest, assertion: string, fields: Record<string, string> = {}): string {
  return new URLSearchParams({
    grant_type: 'client_credentials',
    resource: findResource(service),
    client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
    client_assertion: assertion,
    ...fields
  }).toString()
}

function sendAssertion(
  service: ServiceUnderTest,
  assertion: string,
  fields?: Record<string, string>
): Promise<Exchange> {
  return sendForm(service, createForm(service, assertion, fields))
}

function sendForm(service: ServiceUnderTest, text: string): Promise<Exchange> {
  const { discovery, options } = service
  const endpoint = parseHttpUrl(String(discovery.token_endpoint))
  assertThat(endpoint !== undefined, `token_endpoint is not an http URL: ${String(discovery.token_endpoint)}`)
  // The host may be that of a proxy.
  const basePath = options.url.pathname.replace(/\/$/, '')
  const { pathname } = endpoint
  const path = pathname.startsWith(`${basePath}/`) ? pathname.slice(basePath.length) : pathname
  return service.send('POST', path, { text, headers: { 'Content-Type': FORM } })
}

function assertAccepted(exchange: Exchange, what: string): void {
  const isToken = exchange.status === 200 && typeof exchange.json.access_token === 'string'
  assertThat(isToken, `${what} got no token: ${describe(exchange)}`)
}

function assertRefused(exchange: Exchange, error: string, what: string): void {
  const isRefusal = exchange.status >= 400 && isObject(exchange.json) && exchange.json.error === error
  assertThat(isRefusal, `${what}: ${describe(exchange)}, expected ${error}`)
}
