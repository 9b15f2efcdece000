import { randomBytes } from 'node:crypto'
import { defaultPaths, type Curve } from 'express-did-auth'
import { addressOfPublicKey, checksumAddress, hashPersonalMessage, loginMessage } from 'express-did-auth/protocol'
import { formatSiweMessage, isObject, readBounded, type SiweMessage } from 'express-did-auth/server-kit'

const REQUEST_MILLISECONDS = 15_000
/** Maximum size of a response. Responses of this protocol have a few KiB. */
const MAX_ANSWER_BYTES = 1_048_576

/** Paths of the routes that are tested. */
export const flowPaths = { ...defaultPaths, siweNonce: '/siwe/nonce', siweVerify: '/siwe/verify' }
export type FlowPaths = Record<keyof typeof flowPaths, string>

/** Settings for a service under test. */
export interface ServiceOptions {
  /** Base URL of the paths. */
  url: URL
  paths?: Partial<FlowPaths>
  /** Domain after `Login to `. Default: the host of the realm that a 401 names, else the host of the URL. */
  domain?: string | undefined
  /** A route behind the middleware, for GET. */
  protectedPath: string
  /** Whether users have to sign up before they log in. */
  signsUpFirst?: boolean
  /** Maximum time to wait for an access token to expire. Default: not at all. */
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
  /** Body, if its type and its syntax are JSON. */
  json: Record<string, unknown>
  setCookies: readonly string[]
}

/** A wallet that was never used before. */
export interface User {
  did: string
  /** `personal_sign`: 65 bytes with `0x`. */
  sign: (message: string) => string
}

/** Differences between an EIP-4361 message and a valid one; `end` is appended. */
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

/** A running service that is asked over HTTP, with everything that it answered so far. */
export class ServiceUnderTest {
  readonly exchanges: Exchange[] = []
  readonly paths: FlowPaths
  readonly options: ServiceOptions
  readonly #signedUp = new Set<string>()
  domain: string
  /** Method of requesting challenges: GET if the service supports no other. */
  challengeForm: 'POST' | 'GET' = 'POST'
  readonly #jar: Map<string, string> | undefined

  /** @param jar - where cookies are kept, as a browser does. Without, they are not */
  constructor(options: ServiceOptions, jar?: Map<string, string>) {
    this.options = options
    this.paths = { ...flowPaths, ...options.paths }
    this.domain = options.domain ?? options.url.host
    this.#jar = jar
  }

  /** The same service, as a browser of its own asks it, with a copy of the cookies of this one. */
  visit(): ServiceUnderTest {
    return new ServiceUnderTest({ ...this.options, domain: this.domain, paths: this.paths }, new Map(this.#jar))
  }

  /** Takes the paths that the service publishes, unless its asker named them. */
  async discover(): Promise<void> {
    const { json } = await this.send('GET', '/.well-known/did-auth.json')
    for (const [name, path] of Object.entries(isObject(json.paths) ? json.paths : {})) {
      const isOwn = name in flowPaths && this.options.paths?.[name as keyof FlowPaths] === undefined
      if (isOwn && typeof path === 'string' && path.startsWith('/')) this.paths[name as keyof FlowPaths] = path
    }
  }

  /** Sends a request, with a text as `application/json`. */
  async send(method: 'GET' | 'POST' | 'OPTIONS', path: string, { text, headers }: Sent = {}): Promise<Exchange> {
    const { url, fetch: ask = fetch, signal } = this.options
    const Cookie = [...(this.#jar ?? [])].map((pair) => pair.join('=')).join('; ')
    const type = text === undefined ? {} : { 'Content-Type': 'application/json' }
    const response = await ask(`${url.origin}${url.pathname.replace(/\/$/, '')}${path}`, {
      method,
      redirect: 'manual',
      signal: AbortSignal.any([AbortSignal.timeout(REQUEST_MILLISECONDS), ...(signal ? [signal] : [])]),
      headers: { ...type, ...(Cookie !== '' && { Cookie }), ...headers },
      ...(text !== undefined && { body: text })
    })
    const received = await readBoundedText(response, `${method} ${path}`)
    const isJson = /^application\/(?:[\w.]+\+)?json\b/i.test(response.headers.get('content-type') ?? '')
    const json = isJson ? parseObject(received) : {}
    const { status, headers: answered } = response
    const setCookies = answered.getSetCookie()
    for (const [, name = '', value = ''] of setCookies.flatMap((one) => [/^([^=;]+)=([^;]*)/.exec(one) ?? []])) {
      this.#jar?.set(name, value)
    }
    const exchange = { method, path, status, headers: answered, text: received, json, setCookies }
    this.exchanges.push(exchange)
    return exchange
  }

  post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Exchange> {
    return this.send('POST', path, { text: JSON.stringify(body), headers })
  }

  /** Asks as a browser does before a POST of a page. @param names - of the request's headers, with commas */
  preflight(path: string, headers: Record<string, string>, names = 'content-type'): Promise<Exchange> {
    const asked = { 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': names }
    return this.send('OPTIONS', path, { headers: { ...headers, ...asked } })
  }

  /** Creates a user. The key is not stored elsewhere. */
  newUser(): User {
    const { curve } = this.options
    const key = randomBytes(32)
    const publicKey = curve.publicKeyOf(key)
    // One number of 2^128 is no key.
    if (publicKey === undefined) return this.newUser()
    return {
      did: `did:ethr:rsk:${addressOfPublicKey(curve, publicKey)}`,
      sign: (message) => {
        const { signature, recovery } = curve.sign(hashPersonalMessage(curve, message), key)
        return `0x${Buffer.from(signature).toString('hex')}${(27 + recovery).toString(16)}`
      }
    }
  }

  /** Asks for a challenge in the form that the service has; of a new user, unless a DID is given. */
  askChallenge({ flow = 'auth', did = this.newUser().did, headers = {} }: ChallengeRequest = {}): Promise<Exchange> {
    const path = flow === 'auth' ? this.paths.requestAuth : this.paths.requestSignup
    if (this.challengeForm === 'POST') return this.post(path, { did }, headers)
    return this.send('GET', `${path}/${did}`, { headers })
  }

  /** @returns the empty text for an answer without a challenge, which no check takes for one */
  async challenge(request?: ChallengeRequest): Promise<string> {
    const { challenge } = (await this.askChallenge(request)).json
    return typeof challenge === 'string' ? challenge : ''
  }

  /** The body of a login or sign up, which is good once unless domain or challenge are others. */
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

  /** Logs a new user in. @throws Error when the service refuses, so that the check that needs a session fails */
  async logIn(user = this.newUser()): Promise<Session> {
    const exchange = await this.post(this.paths.auth, await this.proof(user))
    const session = readSession(user, exchange)
    if (session === undefined) throw new Error(`no session: ${describe(exchange)}`)
    return session
  }

  /** A nonce for an EIP-4361 message, by GET, else by POST; undefined where there are none. Vaults answer a list. */
  async siweNonce(account: object = {}): Promise<string | undefined> {
    const path = this.paths.siweNonce
    for (const asked of [() => this.send('GET', path), () => this.post(path, account)]) {
      const { status, text, json } = await asked()
      // A page is what an application answers for any path.
      if (status >= 300 || text.startsWith('<')) continue
      const { nonce = text.replaceAll('"', '') } = json
      return typeof nonce === 'string' && /^[A-Za-z0-9]{8,}$/.test(nonce) ? nonce : undefined
    }
    return undefined
  }

  /** The body of a login by an EIP-4361 message that is good once, and what some backends read besides. */
  async siweProof(user = this.newUser(), changes: SiweChanges = {}): Promise<Record<'message' | 'signature', string>> {
    const address = checksumAddress(this.options.curve, user.did.slice(-42))
    const account = { address, walletAddress: address, chainId: 1 }
    const { nonce = (await this.siweNonce(account)) ?? '', domain = this.domain, end = '', ...others } = changes
    const [uri, issuedAt] = [`${this.options.url.protocol}//${domain}`, new Date().toISOString()]
    const message = formatSiweMessage({ address, domain, uri, chainId: 1, nonce, issuedAt, ...others }) + end
    return { message, signature: user.sign(message), ...account }
  }

  guarded(session: Session, accessToken = session.accessToken): Promise<Exchange> {
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

/** The body of an answer as text, of which at most 1 MiB is read. @throws Error when it is larger */
export async function readBoundedText({ body }: Response, what: string): Promise<string> {
  const tooLong = (): Error => new Error(`${what} answered more than 1 MiB`)
  return new TextDecoder().decode(await readBounded(body, MAX_ANSWER_BYTES, tooLong))
}

/** The tokens of an answer, from body or cookies. */
export function readSession(user: User, answer: Exchange): Session | undefined {
  const { status, json, setCookies } = answer
  if (status !== 200) return undefined
  const { accessToken, refreshToken } = json
  if (typeof accessToken === 'string' && typeof refreshToken === 'string')
    return { user, accessToken, refreshToken, cookies: undefined, answer }
  const pairs = setCookies.map((cookie) => /^([^=;]+)=([^;]+)/.exec(cookie)?.slice(1) ?? [])
  const [access, accessValue] = pairs.find(([name]) => name?.endsWith('authorization')) ?? []
  const [refresh, refreshValue] = pairs.find(([name]) => name?.endsWith('refresh-token')) ?? []
  if (!access || !accessValue || !refresh || !refreshValue) return undefined
  return { user, accessToken: accessValue, refreshToken: refreshValue, cookies: { access, refresh }, answer }
}

function createCredentials({ accessToken, refreshToken, cookies }: Session): Record<string, string> {
  if (cookies === undefined) return { Authorization: `DIDAuth ${accessToken}` }
  return { Cookie: `${cookies.access}=${accessToken}; ${cookies.refresh}=${refreshToken}` }
}

/** The claims of a JWT, or its header, without checking its signature; empty if it is not a JWT. */
export function readClaims(jwt: string, part: 0 | 1 = 1): Record<string, unknown> {
  return parseObject(Buffer.from(jwt.split('.')[part] ?? '', 'base64url').toString())
}

/** The realm that a 401 names: the URL of the service as it knows itself, or its domain. */
export function readRealm({ headers }: Exchange): string | undefined {
  return /realm="([^"]+)"/.exec(headers.get('www-authenticate') ?? '')?.[1]
}

/** An answer in one line, for the reader of a failed check. Without the body of a success, which may hold tokens. */
export function describe({ method, path, status, text }: Exchange): string {
  const shown = text.length > 80 ? `${text.slice(0, 80)}…` : text
  return `${method} ${path} answered ${status}${status < 400 || shown === '' ? '' : ` ${JSON.stringify(shown)}`}`
}

/** A JSON object; empty for anything else. */
function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : {}
  } catch {
    return {}
  }
}
