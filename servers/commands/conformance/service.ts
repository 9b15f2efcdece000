import { defaultPaths, type Curve } from 'express-did-auth'
import { loginMessage } from 'express-did-auth/protocol'
import { boundedText } from './bounded-text.js'
import { newUser, type User } from './user.js'

const REQUEST_MILLISECONDS = 15_000

export type FlowPaths = Record<keyof typeof defaultPaths, string>
export type Fetch = typeof fetch

/** What the checks know of the service before they ask it. */
export interface ServiceOptions {
  /** Paths are appended to it. */
  url: URL
  paths?: Partial<FlowPaths>
  /** What stands after `Login to `. Default: the host of the realm that a 401 names, else that of the URL. */
  domain?: string | undefined
  /** A route behind the middleware, for GET. */
  protectedPath: string
  /** Whether users have to sign up before they log in. */
  signsUpFirst?: boolean
  curve: Curve
  fetch?: Fetch
}

/** One request with its answer. */
export interface Exchange {
  method: string
  path: string
  status: number
  headers: Headers
  text: string
  /** The body, when it is JSON by its type and its syntax. */
  json: Record<string, unknown>
  setCookies: readonly string[]
}

export interface Sent {
  /** Sent as JSON. */
  body?: unknown
  /** Sent as it is, as `application/json`. */
  raw?: string
  headers?: Record<string, string>
}

/** What a login gave. */
export interface Session {
  user: User
  accessToken: string
  refreshToken: string
  /** Names of the cookies in cookie mode. */
  cookies: { access: string; refresh: string } | undefined
}

export type Flow = 'signup' | 'auth'

/** A service that is asked from outside, with everything that it answered so far. */
export class ServiceUnderTest {
  readonly exchanges: Exchange[] = []
  readonly paths: FlowPaths
  readonly options: ServiceOptions
  readonly #signedUp = new Set<string>()
  domain: string
  /** How the checks ask for challenges: by GET where that is the only form of the service. */
  challengeForm: 'POST' | 'GET' = 'POST'

  constructor(options: ServiceOptions) {
    this.options = options
    this.paths = { ...defaultPaths, ...options.paths }
    this.domain = options.domain ?? options.url.host
  }

  async send(method: 'GET' | 'POST' | 'OPTIONS', path: string, { body, raw, headers }: Sent = {}): Promise<Exchange> {
    const { url, fetch: ask = fetch } = this.options
    const text = raw ?? (body === undefined ? undefined : JSON.stringify(body))
    const response = await ask(`${url.origin}${url.pathname.replace(/\/$/, '')}${path}`, {
      method,
      redirect: 'manual',
      signal: AbortSignal.timeout(REQUEST_MILLISECONDS),
      headers: { ...(text !== undefined && { 'Content-Type': 'application/json' }), ...headers },
      ...(text !== undefined && { body: text })
    })
    const received = await boundedText(response, `${method} ${path}`)
    const exchange = {
      method,
      path,
      status: response.status,
      headers: response.headers,
      text: received,
      json: parseJsonAnswer(response.headers, received),
      setCookies: response.headers.getSetCookie()
    }
    this.exchanges.push(exchange)
    return exchange
  }

  post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Exchange> {
    return this.send('POST', path, { body, headers })
  }

  newUser(): User {
    return newUser(this.options.curve)
  }

  /** Asks for a challenge in the form that the service has. */
  askChallenge(flow: Flow, did: string, headers: Record<string, string> = {}): Promise<Exchange> {
    const path = flow === 'auth' ? this.paths.requestAuth : this.paths.requestSignup
    if (this.challengeForm === 'POST') return this.post(path, { did }, headers)
    return this.send('GET', `${path}/${did}`, { headers })
  }

  /** Asks for a challenge. An answer without one gives the empty text, which no check takes for a challenge. */
  async challenge(flow: Flow, did: string): Promise<string> {
    const { challenge } = (await this.askChallenge(flow, did)).json
    return typeof challenge === 'string' ? challenge : ''
  }

  /** The body of a login or sign up that is good once. */
  async proof(user: User, flow: Flow = 'auth'): Promise<{ did: string; sig: string }> {
    const { signsUpFirst = false } = this.options
    if (signsUpFirst && flow === 'auth' && !this.#signedUp.has(user.did)) {
      this.#signedUp.add(user.did)
      await this.post(this.paths.signup, await this.proof(user, 'signup'))
    }
    return { did: user.did, sig: user.sign(loginMessage(this.domain, await this.challenge(flow, user.did))) }
  }

  /** Logs a new user in. @throws Error when the service refuses, so that the check that needs a session fails */
  async logIn(user = this.newUser()): Promise<Session> {
    const exchange = await this.post(this.paths.auth, await this.proof(user))
    const session = sessionOf(user, exchange)
    if (session === undefined) throw new Error(`no session: ${describe(exchange)}`)
    return session
  }

  /** `GET` of the guarded route with an access token. */
  guarded(session: Session, accessToken = session.accessToken): Promise<Exchange> {
    return this.send('GET', this.options.protectedPath, { headers: credentials({ ...session, accessToken }) })
  }

  refresh(session: Session, headers: Record<string, string> = {}): Promise<Exchange> {
    const { refreshToken, cookies } = session
    if (cookies === undefined) return this.post(this.paths.refreshToken, { refreshToken }, headers)
    return this.post(this.paths.refreshToken, {}, { Cookie: `${cookies.refresh}=${refreshToken}`, ...headers })
  }

  logOut(session: Session, headers: Record<string, string> = {}): Promise<Exchange> {
    return this.post(this.paths.logout, {}, { ...credentials(session), ...headers })
  }
}

/** The tokens of an answer, from body or cookies. */
export function sessionOf(user: User, { status, json, setCookies }: Exchange): Session | undefined {
  if (status !== 200) return undefined
  const { accessToken, refreshToken } = json
  if (typeof accessToken === 'string' && typeof refreshToken === 'string') {
    return { user, accessToken, refreshToken, cookies: undefined }
  }
  const pairs = setCookies.map((cookie) => /^([^=;]+)=([^;]+)/.exec(cookie)?.slice(1) ?? [])
  const [access, accessValue] = pairs.find(([name]) => name?.endsWith('authorization')) ?? []
  const [refresh, refreshValue] = pairs.find(([name]) => name?.endsWith('refresh-token')) ?? []
  if (access === undefined || accessValue === undefined) return undefined
  if (refresh === undefined || refreshValue === undefined) return undefined
  return { user, accessToken: accessValue, refreshToken: refreshValue, cookies: { access, refresh } }
}

/** The headers by which a request carries the access token. */
export function credentials({ accessToken, refreshToken, cookies }: Session): Record<string, string> {
  if (cookies === undefined) return { Authorization: `DIDAuth ${accessToken}` }
  return { Cookie: `${cookies.access}=${accessToken}; ${cookies.refresh}=${refreshToken}` }
}

/** The claims of a JWT, whose signature is not looked at; none where it is no JWT. */
export function claimsOf(jwt: string): Record<string, unknown> {
  return partOf(jwt, 1)
}

/** One of the two JSON parts of a JWT. */
export function partOf(jwt: string, index: 0 | 1): Record<string, unknown> {
  return parseObject(Buffer.from(jwt.split('.')[index] ?? '', 'base64url').toString())
}

/** An answer in one line, for the reader of a failed check. Without the body of a success, which may hold tokens. */
export function describe({ method, path, status, text }: Exchange): string {
  const shown = text.length > 80 ? `${text.slice(0, 80)}…` : text
  return `${method} ${path} answered ${status}${status < 400 || shown === '' ? '' : ` ${JSON.stringify(shown)}`}`
}

function parseJsonAnswer(headers: Headers, text: string): Record<string, unknown> {
  return /^application\/(?:[\w.]+\+)?json\b/i.test(headers.get('content-type') ?? '') ? parseObject(text) : {}
}

/** A JSON object; what is none has no fields. */
function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {}
  } catch {
    return {}
  }
}
