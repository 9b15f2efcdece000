import { PROTOCOL, RATE_LIMITED, REFUSED, UNAVAILABLE } from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { parseFields } from '../wire/json.js'
import { ask, parseServiceUrl, readAtMost, readRequiredText, readText, toClientError } from '../wire/request.js'
import type { Answer, Service } from '../wire/request.js'
import { createRandomText, encodeBase64url, utf8, type Bytes } from '../wire/seal.js'
import type { ClientClock } from '../wire/timing.js'
import { loadSigner, type MachineKey } from './machine-key.js'

const WELL_KNOWN = '/.well-known/oauth-authorization-server'
const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
/** Lifetime of an assertion. The clock of this machine may be 5 minutes slow, or a minute fast. */
const ASSERTION_SECONDS = 300
const MAX_ANSWER_BYTES = 64 * 1024

/** A service, and a machine with its key. */
export type MachineOptions = MachineKey & {
  /** URL of the service that issues the tokens. */
  readonly url: string
  /** `serviceUrl` of the service, if `url` is another address of it, such as an internal one. Default: `url`. */
  readonly serviceUrl?: string | undefined
  /** DID of the machine, whose key signs: `did:key`, `did:jwk` or `did:ethr`. */
  readonly did: string
  /** Default: the global `fetch`. */
  readonly fetch?: ((url: string, init: RequestInit) => Promise<Response>) | undefined
  /** Time limit for a response with its body, in seconds. Default 8. */
  readonly timeoutSeconds?: number | undefined
  /** Clock for tests. Default: the machine's clock. */
  readonly clock?: ClientClock | undefined
}

/** Options of {@link machineToken}. */
export type MachineTokenOptions = MachineOptions & {
  /** URL of the service that the token is for, as the issuing service lists it in `resources`. */
  readonly resource: string
}

/** A token for a resource. */
export interface MachineToken {
  /** Compact JWT, for `Authorization: Bearer`. */
  readonly accessToken: string
  /** Lifetime in seconds, from the arrival of the token. */
  readonly expiresInSeconds: number
}

/**
 * Gets a token for another service by the machine's key: OAuth 2.0 client credentials with a signed assertion. Each
 * call sends two requests; `MachineClient` reuses a token.
 *
 * @throws DidAuthClientError REFUSED with OAuth's error as `serverCode`, such as `invalid_client`; RATE_LIMITED,
 * UNAVAILABLE; PROTOCOL, also if the service has no machine login. TypeError for a key of another kind, or an invalid
 * `url`
 * @see RFC 6749, section 4.4; RFC 7523, section 2.2; RFC 8414; RFC 8707
 * @example
 * const { accessToken } = await machineToken({ url: 'https://auth.example', did, privateKey, resource: 'https://orders.example' })
 * await fetch('https://orders.example/orders', { headers: { Authorization: `Bearer ${accessToken}` } })
 */
export async function machineToken(options: MachineTokenOptions): Promise<MachineToken> {
  const { did, resource, fetch, timeoutSeconds = 8, clock } = options
  const signer = await loadSigner(options)
  // Following a redirect would send the assertion to another server.
  const init: RequestInit = { redirect: 'manual' }
  const read = (response: Response): Promise<Bytes> => readAtMost(MAX_ANSWER_BYTES, response)
  const service: Service = { url: '', fetch, timeoutSeconds, init, read, findErrorKind: throwOAuthError }
  const { issuer, endpoint } = await findEndpoint(service, options)
  const now = Math.floor(clock?.nowSeconds() ?? Date.now() / 1_000)
  const times = { iat: now, exp: now + ASSERTION_SECONDS }
  const claims = { iss: did, sub: did, aud: issuer, ...times, jti: createRandomText() }
  const input = `${encodeJson({ alg: signer.alg, typ: 'JWT' })}.${encodeJson(claims)}`
  const signature = encodeBase64url(new Uint8Array(await signer.sign(utf8(input))))
  const body = new URLSearchParams({
    grant_type: 'client_credentials',
    resource,
    client_assertion_type: ASSERTION_TYPE,
    client_assertion: `${input}.${signature}`
  })
  const headers = { 'Content-Type': 'application/x-www-form-urlencoded' }
  const form: Service = { ...service, init: { ...init, body: body.toString() } }
  const answer = await ask(form, { method: 'POST', path: endpoint, headers })
  const { token_type: tokenType, expires_in: seconds } = parseFields(answer.json)
  const isBearer = /^bearer$/i.test(String(tokenType))
  if (!isBearer || typeof seconds !== 'number') throw toClientError(answer)
  return { accessToken: readRequiredText(answer, 'access_token'), expiresInSeconds: seconds }
}

/** Issuer and token endpoint of a service. */
interface Metadata {
  readonly issuer: string
  readonly endpoint: string
}

/**
 * Finds the token endpoint in the metadata of a service. If `url` has a path, the metadata may be at the root of the
 * origin, as the RFC says, or below the path, where a router serves it.
 * @throws DidAuthClientError as {@link ask}; PROTOCOL also for metadata of another issuer
 * @see RFC 8414, section 3.1
 */
async function findEndpoint(service: Service, { url, serviceUrl = url }: MachineOptions): Promise<Metadata> {
  const base = parseServiceUrl(url)
  const { origin, pathname } = new URL(base)
  const atRoot = `${origin}${WELL_KNOWN}${pathname.replace(/\/$/, '')}`
  try {
    return parseMetadata(await ask(service, { path: atRoot }), serviceUrl)
  } catch (error) {
    if (pathname === '/' || parseFields(error).code !== PROTOCOL[0]) throw error
    return ask(service, { path: base + WELL_KNOWN }).then(
      (answer) => parseMetadata(answer, serviceUrl),
      // The root is the place that the RFC names, so its error is thrown.
      () => {
        throw error
      }
    )
  }
}

/**
 * Parses the metadata of an expected issuer. A service with https cannot name an endpoint without.
 * @throws DidAuthClientError PROTOCOL
 * @see RFC 8414, section 3.3
 */
function parseMetadata(answer: Answer, serviceUrl: string): Metadata {
  const [issuer = '', endpoint = ''] = [readText(answer, 'issuer'), readText(answer, 'token_endpoint')]
  const isIssuer = issuer.replace(/\/+$/, '') === parseServiceUrl(serviceUrl)
  if (isIssuer && (/^https:/.test(serviceUrl) ? /^https:/ : /^https?:/).test(endpoint)) return { issuer, endpoint }
  const found = isIssuer ? 'no token_endpoint' : `issuer ${issuer.slice(0, 200)} instead of ${serviceUrl}`
  throw new DidAuthClientError(PROTOCOL, { message: `${answer.what}: ${found}`, status: answer.response.status })
}

/** Throws the error of a refusal in OAuth's form. @see RFC 6749, section 5.2 */
function throwOAuthError(status: number, _code: string | undefined, answer: Answer): undefined {
  const serverCode = readText(answer, 'error')
  if (serverCode === undefined) return undefined
  const details = readText(answer, 'error_description') ?? ''
  throw new DidAuthClientError(status === 429 ? RATE_LIMITED : status >= 500 ? UNAVAILABLE : REFUSED, {
    message: `${answer.what}: ${status} ${serverCode} ${details.slice(0, 200)}`.trim(),
    status,
    serverCode,
    retryAfterSeconds: Number(answer.response.headers.get('Retry-After')) || undefined
  })
}

function encodeJson(value: object): string {
  return encodeBase64url(utf8(JSON.stringify(value)))
}
