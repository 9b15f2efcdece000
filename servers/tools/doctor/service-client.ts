import { randomBytes } from 'node:crypto'
import { defaultPaths, type Curve } from 'express-did-auth'
import { addressOfPublicKey, checksumAddress, hashPersonalMessage, loginMessage } from 'express-did-auth/protocol'
import { createLazy, formatSiweMessage, isObject, readBounded } from 'express-did-auth/server-kit'

/** Maximum size of a response in bytes. Responses of this protocol have a few KiB. */
const MAX_ANSWER_BYTES = 1_048_576

/** Settings of a {@link ServiceClient}. */
interface ServiceOptions {
  /** Base URL of the paths. */
  url: URL
  curve: Curve
  /** Signal that ends all requests. */
  signal: AbortSignal
}

/** A request with its response. */
export interface Exchange {
  method: string
  path: string
  status: number
  headers: Headers
  text: string
  /** Parsed body. Empty if the content type or the syntax is not JSON. */
  json: Record<string, unknown>
}

/** A user with a new wallet. */
interface User {
  did: string
  /** Signs as `personal_sign` does. Returns 65 bytes in hexadecimal with `0x`. */
  sign: (message: string) => string
}

type Sent = { text?: string; headers?: Record<string, string> }
type ChallengeRequest = { did?: string; headers?: Record<string, string> }

/** Client of a running service. It stores no cookies. */
export class ServiceClient {
  readonly options: ServiceOptions
  readonly paths = { ...defaultPaths, siweNonce: '/siwe/nonce', siweVerify: '/siwe/verify' }
  /** Discovery document; empty if the service publishes none. */
  discovery: Readonly<Record<string, unknown>> = {}
  /** Response to a logout without a token. It names the realm, and clears cookies in cookie mode. */
  readonly refusedLogout = createLazy(() => this.post(this.paths.logout, {}))

  constructor(options: ServiceOptions) {
    this.options = options
  }

  /** Reads the discovery document with the paths of the service. */
  async discover(): Promise<void> {
    const { json } = await this.send('GET', '/.well-known/did-auth.json')
    this.discovery = json
    for (const [name, path] of Object.entries(isObject(json.paths) ? json.paths : {})) {
      const isPath = typeof path === 'string' && path.startsWith('/')
      if (Object.hasOwn(this.paths, name) && isPath) this.paths[name as keyof typeof this.paths] = path
    }
  }

  /** Whether the discovery document announces that the service accepts device proofs. */
  acceptsDeviceProofs(): boolean {
    const { dpop_signing_alg_values_supported: algorithms } = this.discovery
    return Array.isArray(algorithms) && algorithms.includes('ES256')
  }

  /** Whether the discovery document names a token endpoint and a resource. */
  acceptsMachines(): boolean {
    const { token_endpoint: endpoint, resources } = this.discovery
    return typeof endpoint === 'string' && Array.isArray(resources) && resources.length > 0
  }

  /** Sends a request. A `text` is sent as `application/json`. */
  async send(method: 'GET' | 'POST' | 'OPTIONS', path: string, { text, headers }: Sent = {}): Promise<Exchange> {
    const { url, signal } = this.options
    const type = text === undefined ? {} : { 'Content-Type': 'application/json' }
    const response = await fetch(`${url.origin}${url.pathname.replace(/\/$/, '')}${path}`, {
      method,
      redirect: 'manual',
      signal,
      headers: { ...type, ...headers },
      ...(text !== undefined && { body: text })
    })
    const tooLong = (): Error => new Error(`${method} ${path} answered with more than 1 MiB`)
    const responseText = new TextDecoder().decode(await readBounded(response.body, MAX_ANSWER_BYTES, tooLong))
    const isJson = /^application\/(?:[\w.]+\+)?json\b/i.test(response.headers.get('content-type') ?? '')
    const json = isJson ? parseObject(responseText) : {}
    return { method, path, status: response.status, headers: response.headers, text: responseText, json }
  }

  post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Exchange> {
    return this.send('POST', path, { text: JSON.stringify(body), headers })
  }

  /**
   * Sends the preflight request with which a browser announces a POST of a page.
   *
   * @param names - header names of the announced request, separated by commas
   */
  preflight(path: string, headers: Record<string, string>, names: string): Promise<Exchange> {
    const announced = { 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': names }
    return this.send('OPTIONS', path, { headers: { ...headers, ...announced } })
  }

  /** Requests a login challenge. Default DID: that of a new user. */
  requestChallenge({ did = this.#createUser().did, headers = {} }: ChallengeRequest = {}): Promise<Exchange> {
    return this.post(this.paths.requestAuth, { did }, headers)
  }

  /** Creates the body of a login with a message that names a domain. */
  async createLogin({ did, sign }: User, domain: string): Promise<object> {
    const { challenge } = (await this.requestChallenge({ did })).json
    return { did, sig: sign(loginMessage(domain, String(challenge))) }
  }

  /** Creates the body of an EIP-4361 login with a message that names a domain. */
  async createSiweLogin({ did, sign }: User, domain: string): Promise<object> {
    const address = checksumAddress(this.options.curve, did.slice(-42))
    const nonce = (await this.requestSiweNonce()) ?? ''
    const [uri, issuedAt] = [`${this.options.url.protocol}//${domain}`, new Date().toISOString()]
    const message = formatSiweMessage({ address, domain, uri, chainId: 1, nonce, issuedAt })
    return { message, signature: sign(message) }
  }

  /** Logs a new user in, and out again if that succeeds. @returns the error code of a refused login */
  async tryLogIn(path: string, createBody: (user: User) => Promise<object>): Promise<string> {
    const body = await createBody(this.#createUser())
    const response = await this.post(path, body, { Accept: 'application/problem+json' })
    const credentials = readCredentials(response)
    if (credentials !== undefined) await this.post(this.paths.logout, {}, credentials)
    return String(response.json.code)
  }

  /** Whether the service returns tokens in cookies. */
  async usesCookies(): Promise<boolean> {
    return (await this.refusedLogout()).headers.getSetCookie().length > 0
  }

  /** Requests a nonce for an EIP-4361 message. Undefined if the service issues none. */
  async requestSiweNonce(): Promise<string | undefined> {
    const { status, text, json } = await this.send('GET', this.paths.siweNonce)
    // Many applications answer any path with their HTML page. A vault answers this path with a list.
    const { nonce = text } = json
    return status === 200 && typeof nonce === 'string' && /^[A-Za-z0-9]{8,}$/.test(nonce) ? nonce : undefined
  }

  /** Creates a user with a random key, which only the returned function holds. */
  #createUser(): User {
    const { curve } = this.options
    const key = randomBytes(32)
    const publicKey = curve.publicKeyOf(key)
    // One of about 2^128 random numbers is not a valid key.
    if (publicKey === undefined) return this.#createUser()
    return {
      did: `did:ethr:rsk:${addressOfPublicKey(curve, publicKey)}`,
      sign: (message) => {
        const { signature, recovery } = curve.sign(hashPersonalMessage(curve, message), key)
        return `0x${Buffer.from(signature).toString('hex')}${(27 + recovery).toString(16)}`
      }
    }
  }
}

/** Returns the headers with the tokens of a login, from its body or its cookies. Undefined if it was refused. */
function readCredentials({ status, headers, json }: Exchange): Record<string, string> | undefined {
  if (status !== 200) return undefined
  if (typeof json.accessToken === 'string') return { Authorization: `DIDAuth ${json.accessToken}` }
  const cookies = headers.getSetCookie().map((cookie) => cookie.replace(/;.*/s, ''))
  return cookies.length > 0 ? { Cookie: cookies.join('; ') } : undefined
}

/** Reads the realm of a 401 response: the service's own URL, or its domain. */
export function readRealm({ headers }: Exchange): string | undefined {
  return /realm="([^"]+)"/.exec(headers.get('www-authenticate') ?? '')?.[1]
}

/** Describes a response in one line. It omits the body of a success, which may contain tokens. */
export function describe({ method, path, status, text }: Exchange): string {
  const shown = text.length > 80 ? `${text.slice(0, 80)}…` : text
  return `${method} ${path} answered ${status}${status < 400 || shown === '' ? '' : ` ${JSON.stringify(shown)}`}`
}

/** Parses a JSON object. Empty for any other text. */
function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : {}
  } catch {
    return {}
  }
}
