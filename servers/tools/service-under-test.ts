import { randomBytes } from 'node:crypto'
import { defaultPaths, type Curve } from 'express-did-auth'
import { addressOfPublicKey, checksumAddress, hashPersonalMessage, loginMessage } from 'express-did-auth/protocol'
import { createLazy, formatSiweMessage, isObject, readBounded, type SiweMessage } from 'express-did-auth/server-kit'
import { limitMilliseconds } from '../config/time-limits.js'

/** Maximum size of a response in bytes. Responses of this protocol have a few KiB. */
const MAX_ANSWER_BYTES = 1_048_576

/** Paths of the routes that are tested. */
export const flowPaths = { ...defaultPaths, siweNonce: '/siwe/nonce', siweVerify: '/siwe/verify' }
export type FlowPaths = Record<keyof typeof flowPaths, string>

/** Settings for a service under test. */
export interface ServiceOptions {
  /** Base URL of the paths. */
  url: URL
  paths?: Partial<FlowPaths>
  /** Domain after `Login to `. Default: the host of the realm in a 401 response, else the host of the URL. */
  domain?: string | undefined
  /** Path of a route that requires an access token, for GET. */
  protectedPath: string
  /** Whether users have to sign up before they log in. */
  signsUpFirst?: boolean
  /** Maximum time to wait for an access token to expire, in seconds. Default 0. */
  maxWaitSeconds?: number
  wait?: (seconds: number) => Promise<void>
  curve: Curve
  /** Signal that ends all requests. */
  signal?: AbortSignal
  fetch?: typeof fetch
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
  setCookies: readonly string[]
}

/** A user with a new wallet. */
export interface User {
  did: string
  /** Signs as `personal_sign` does. Returns 65 bytes in hexadecimal with `0x`. */
  sign: (message: string) => string
}

/** Fields that replace those of a valid EIP-4361 message; `end` is appended to the text. */
export type SiweChanges = Partial<SiweMessage> & { end?: string }

/** Result of a login. */
export interface Session {
  user: User
  accessToken: string
  refreshToken: string
  /** Names of the cookies in cookie mode. */
  cookies: { access: string; refresh: string } | undefined
  answer: Exchange
}

export type Flow = 'signup' | 'auth'
type Sent = { text?: string; headers?: Record<string, string> }
type ProofChanges = { flow?: Flow; domain?: string; challenge?: string }
type ChallengeRequest = { flow?: Flow; did?: string; headers?: Record<string, string> }

/** Client of a running service. It records all requests and responses, and stores cookies if it has a cookie jar. */
export class ServiceUnderTest {
  readonly exchanges: Exchange[] = []
  readonly paths: FlowPaths
  readonly options: ServiceOptions
  readonly #signedUp = new Set<string>()
  domain: string
  /** Discovery document; empty if the service publishes none. */
  discovery: Readonly<Record<string, unknown>> = {}
  /** Method for requesting challenges: GET if the service does not support POST. */
  challengeForm: 'POST' | 'GET' = 'POST'
  readonly #cookies: Map<string, string> | undefined
  /** Response to a logout without a token. It names the realm, and clears cookies in cookie mode. */
  readonly refusedLogout = createLazy(() => this.post(this.paths.logout, {}))

  /** @param cookies - cookie jar, as a browser has one. Default: cookies are neither stored nor sent */
  constructor(options: ServiceOptions, cookies?: Map<string, string>) {
    this.options = options
    this.paths = { ...flowPaths, ...options.paths }
    this.domain = options.domain ?? options.url.host
    this.#cookies = cookies
  }

  /** Returns a client of the same service, like a second browser, with a copy of this client's cookies. */
  cloneBrowser(): ServiceUnderTest {
    return new ServiceUnderTest({ ...this.options, domain: this.domain, paths: this.paths }, new Map(this.#cookies))
  }

  /** Reads the discovery document with the paths of the service. Paths in the options take precedence. */
  async discover(): Promise<void> {
    const { json } = await this.send('GET', '/.well-known/did-auth.json')
    this.discovery = json
    for (const [name, path] of Object.entries(isObject(json.paths) ? json.paths : {})) {
      const isUnset = name in flowPaths && this.options.paths?.[name as keyof FlowPaths] === undefined
      if (isUnset && typeof path === 'string' && path.startsWith('/')) this.paths[name as keyof FlowPaths] = path
    }
  }

  /** Sends a request. A `text` is sent as `application/json`. */
  async send(method: 'GET' | 'POST' | 'OPTIONS', path: string, { text, headers }: Sent = {}): Promise<Exchange> {
    const { url, fetch: sendRequest = fetch, signal } = this.options
    const Cookie = [...(this.#cookies ?? [])].map((pair) => pair.join('=')).join('; ')
    const type = text === undefined ? {} : { 'Content-Type': 'application/json' }
    const response = await sendRequest(`${url.origin}${url.pathname.replace(/\/$/, '')}${path}`, {
      method,
      redirect: 'manual',
      signal: AbortSignal.any([AbortSignal.timeout(limitMilliseconds.conformanceRequest), ...(signal ? [signal] : [])]),
      headers: { ...type, ...(Cookie !== '' && { Cookie }), ...headers },
      ...(text !== undefined && { body: text })
    })
    const tooLong = (): Error => new Error(`${method} ${path} answered with more than 1 MiB`)
    const responseText = new TextDecoder().decode(await readBounded(response.body, MAX_ANSWER_BYTES, tooLong))
    const isJson = /^application\/(?:[\w.]+\+)?json\b/i.test(response.headers.get('content-type') ?? '')
    const json = isJson ? parseObject(responseText) : {}
    const { status, headers: responseHeaders } = response
    const setCookies = responseHeaders.getSetCookie()
    for (const [name, value] of readCookies(setCookies)) this.#cookies?.set(name, value)
    const exchange = { method, path, status, headers: responseHeaders, text: responseText, json, setCookies }
    this.exchanges.push(exchange)
    return exchange
  }

  post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Exchange> {
    return this.send('POST', path, { text: JSON.stringify(body), headers })
  }

  /**
   * Sends the preflight request with which a browser announces a POST of a page.
   *
   * @param names - header names of the announced request, separated by commas
   */
  preflight(path: string, headers: Record<string, string>, names = 'content-type'): Promise<Exchange> {
    const announced = { 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': names }
    return this.send('OPTIONS', path, { headers: { ...headers, ...announced } })
  }

  /** Creates a user with a random key, which only the returned function holds. */
  newUser(): User {
    const { curve } = this.options
    const key = randomBytes(32)
    const publicKey = curve.publicKeyOf(key)
    // One of about 2^128 random numbers is not a valid key.
    if (publicKey === undefined) return this.newUser()
    return {
      did: `did:ethr:rsk:${addressOfPublicKey(curve, publicKey)}`,
      sign: (message) => {
        const { signature, recovery } = curve.sign(hashPersonalMessage(curve, message), key)
        return `0x${Buffer.from(signature).toString('hex')}${(27 + recovery).toString(16)}`
      }
    }
  }

  /** Requests a challenge by the method that the service supports. Default DID: that of a new user. */
  requestChallenge({
    flow = 'auth',
    did = this.newUser().did,
    headers = {}
  }: ChallengeRequest = {}): Promise<Exchange> {
    const path = flow === 'auth' ? this.paths.requestAuth : this.paths.requestSignup
    if (this.challengeForm === 'POST') return this.post(path, { did }, headers)
    return this.send('GET', `${path}/${did}`, { headers })
  }

  /** Requests a challenge and returns it; the empty string if the response contains none. */
  async challenge(request?: ChallengeRequest): Promise<string> {
    const { challenge } = (await this.requestChallenge(request)).json
    return typeof challenge === 'string' ? challenge : ''
  }

  /** Creates the body of a login or sign-up. It is valid once, unless `changes` make it invalid. */
  async proof(user = this.newUser(), changes: ProofChanges = {}): Promise<{ did: string; sig: string }> {
    const { flow = 'auth', domain = this.domain } = changes
    const { did } = user
    if (this.options.signsUpFirst === true && flow === 'auth' && !this.#signedUp.has(did)) {
      this.#signedUp.add(did)
      await this.post(this.paths.signup, await this.proof(user, { flow: 'signup' }))
    }
    const challenge = changes.challenge ?? (await this.challenge({ flow, did }))
    return { did, sig: user.sign(loginMessage(domain, challenge)) }
  }

  /** Logs a new user in. @throws Error if the service refuses, so that a check that needs a session fails */
  async logIn(user = this.newUser()): Promise<Session> {
    const exchange = await this.post(this.paths.auth, await this.proof(user))
    const session = readSession(user, exchange)
    if (session === undefined) throw new Error(`the login opened no session: ${describe(exchange)}`)
    return session
  }

  /** Whether the service returns tokens in cookies. */
  async usesCookies(): Promise<boolean> {
    return (await this.refusedLogout()).setCookies.length > 0
  }

  /** Requests a nonce for an EIP-4361 message, by GET, else by POST. Undefined if the service issues none. */
  async requestSiweNonce(account: object = {}): Promise<string | undefined> {
    const path = this.paths.siweNonce
    for (const send of [() => this.send('GET', path), () => this.post(path, account)]) {
      const { status, text, json } = await send()
      // Many applications answer any path with their HTML page. A vault answers this path with a list.
      if (status >= 300 || text.startsWith('<')) continue
      const { nonce = text.replaceAll('"', '') } = json
      return typeof nonce === 'string' && /^[A-Za-z0-9]{8,}$/.test(nonce) ? nonce : undefined
    }
    return undefined
  }

  /** Whether two requests for a nonce receive the same one. Undefined if one of them receives none. */
  async repeatsSiweNonce(): Promise<boolean | undefined> {
    const nonces = [await this.requestSiweNonce(), await this.requestSiweNonce()]
    return nonces.includes(undefined) ? undefined : nonces[0] === nonces[1]
  }

  /** Creates the body of an EIP-4361 login, with fields that only some backends read. It is valid once. */
  async createSiweProof(
    user = this.newUser(),
    changes: SiweChanges = {}
  ): Promise<Record<'message' | 'signature', string>> {
    const address = checksumAddress(this.options.curve, user.did.slice(-42))
    const account = { address, walletAddress: address, chainId: 1 }
    const { nonce = (await this.requestSiweNonce(account)) ?? '', domain = this.domain, end = '', ...others } = changes
    const [uri, issuedAt] = [`${this.options.url.protocol}//${domain}`, new Date().toISOString()]
    const message = formatSiweMessage({ address, domain, uri, chainId: 1, nonce, issuedAt, ...others }) + end
    return { message, signature: user.sign(message), ...account }
  }

  readProtected(session: Session, accessToken = session.accessToken): Promise<Exchange> {
    return this.send('GET', this.options.protectedPath, { headers: createCredentials({ ...session, accessToken }) })
  }

  refresh({ refreshToken, cookies }: Session, headers: Record<string, string> = {}): Promise<Exchange> {
    if (cookies === undefined) return this.post(this.paths.refreshToken, { refreshToken }, headers)
    return this.post(this.paths.refreshToken, {}, { Cookie: `${cookies.refresh}=${refreshToken}`, ...headers })
  }

  logOut(session: Session, headers: Record<string, string> = {}): Promise<Exchange> {
    return this.post(this.paths.logout, {}, { ...createCredentials(session), ...headers })
  }
}

/** Reads the tokens of a response from its body or its cookies. Undefined if it has none. */
export function readSession(user: User, answer: Exchange): Session | undefined {
  const { status, json, setCookies } = answer
  if (status !== 200) return undefined
  const { accessToken, refreshToken } = json
  if (typeof accessToken === 'string' && typeof refreshToken === 'string')
    return { user, accessToken, refreshToken, cookies: undefined, answer }
  const cookies = readCookies(setCookies)
  const [access, accessValue] = cookies.find(([name]) => name.endsWith('authorization')) ?? []
  const [refresh, refreshValue] = cookies.find(([name]) => name.endsWith('refresh-token')) ?? []
  if (!access || !accessValue || !refresh || !refreshValue) return undefined
  return { user, accessToken: accessValue, refreshToken: refreshValue, cookies: { access, refresh }, answer }
}

/** Returns name and value of each cookie. */
function readCookies(setCookies: readonly string[]): [name: string, value: string][] {
  const matches = setCookies.map((cookie) => /^([^=;]+)=([^;]*)/.exec(cookie) ?? [])
  return matches.map(([, name = '', value = '']) => [name, value])
}

function createCredentials({ accessToken, refreshToken, cookies }: Session): Record<string, string> {
  if (cookies === undefined) return { Authorization: `DIDAuth ${accessToken}` }
  return { Cookie: `${cookies.access}=${accessToken}; ${cookies.refresh}=${refreshToken}` }
}

/** Reads the claims of a JWT, or its header, without verifying its signature. Empty if it is not a JWT. */
export function readClaims(jwt: string, part: 0 | 1 = 1): Record<string, unknown> {
  return parseObject(Buffer.from(jwt.split('.')[part] ?? '', 'base64url').toString())
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
