import type { ErrorRequestHandler, Request, RequestHandler, Response } from 'express'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { parseCookies } from '../cookies.js'
import { runAsClient } from '../current-client.js'
import { rememberErrorCode } from '../error-answer.js'
import { DidAuthError, type DidAuthErrorCode } from '../errors.js'
import { createClient } from '../http/client-network.js'
import type { HttpParts } from '../http/guard.js'
import { answerRequest, answerRouteError, createRouteFinder, listRoutes, type RouteMatch } from '../http/routes.js'
import type { HttpAnswer, HttpRequest, RequestHeaders } from '../http-messages.js'
import { isObject, readField } from '../protocol/json.js'

/** Any Express 4.18+ or 5 application or router. */
export interface ExpressApp {
  /** Adds a handler for all paths. */
  use(handler: RequestHandler): unknown
  /** Adds a handler of errors for the paths of the library's routes. */
  use(path: RegExp, handler: ErrorRequestHandler): unknown
}

/** Error codes by the `type` of errors of body-parser, which is `express.json()`. */
const PARSER_REFUSALS: ReadonlyMap<unknown, DidAuthErrorCode> = new Map([
  ['entity.parse.failed', 'ERR_JSON'],
  ['encoding.unsupported', 'ERR_JSON'],
  ['charset.unsupported', 'ERR_JSON'],
  ['request.aborted', 'ERR_JSON'],
  ['request.size.invalid', 'ERR_JSON'],
  ['entity.verify.failed', 'ERR_JSON'],
  ['entity.too.large', 'ERR_TOO_LARGE'],
  // Two refusals by express.urlencoded, which the token endpoint may need.
  ['parameters.too.many', 'ERR_TOO_LARGE'],
  ['querystring.parse.rangeError', 'ERR_INVALID']
])

/**
 * Middleware that names the client which sent a request to everything after it, so that a store whose connections are
 * all in use serves client networks in turn. `setupDidAuth` includes it; it is for servers that use a store without.
 */
export const handleAsClient: RequestHandler = (req, _res, next) => {
  runAsClient(
    () => createClient(new ExpressRequest(req)),
    () => next()
  )
}

/**
 * Mounts our routes, with their body reader and error handler; other requests pass unchanged. If a parser of the
 * application refuses the body of a request to our routes, our error answer is sent as well.
 */
export function mountRoutes(app: ExpressApp, http: HttpParts): void {
  const routes = listRoutes(http.settings)
  const findRoute = createRouteFinder(routes)
  const find = (req: Request): RouteMatch | undefined => findRoute(req, (rule) => req.app.enabled(rule))

  const answer: RequestHandler = (req, res, next) => {
    handleAsClient(req, res, () => {
      const match = find(req)
      if (match === undefined) {
        next()
        return
      }
      answerRequest(http, match, new ExpressRequest(req))
        .then((answered) => {
          if (!res.headersSent && !res.destroyed) sendAnswer(res, answered)
        })
        // Only the application's own code can fail now: its logger, or its hooks on the response.
        .catch(next)
    })
  }

  // Express recognises an error handler by its four parameters.
  const answerParserError: ErrorRequestHandler = (error: unknown, req, res, next) => {
    const refusal = toParserRefusal(error)
    const route = find(req)?.route
    if (refusal === undefined || route === undefined) {
      next(error)
      return
    }
    sendAnswer(res, answerRouteError(http, route, new ExpressRequest(req), refusal))
  }

  app.use(answer)
  app.use(createStartPattern(routes.map(({ path }) => path)), answerParserError)
}

/** Converts a refusal of the application's parser, else undefined. The cause is dropped, because it quotes the body. */
export function toParserRefusal(error: unknown): DidAuthError | undefined {
  const code = PARSER_REFUSALS.get(readField(error, 'type'))
  if (code !== undefined) return new DidAuthError(code)
  // A compressed body that is damaged. @see Node's documentation of zlib
  return /^Z_/.test(String(readField(error, 'code'))) ? new DidAuthError('ERR_INVALID') : undefined
}

/** Creates a pattern whose match is empty, so that Express leaves the path as it is, and skips other paths. */
function createStartPattern(paths: string[]): RegExp {
  const quoted = paths.map((path) => path.replace(/\/$/, '').replace(/[^\w/-]/g, String.raw`\$&`))
  return new RegExp(`^(?=(?:${quoted.join('|')})(?:/|$))`, 'i')
}

const CORS_ORIGIN = 'Access-Control-Allow-Origin'

const UNKNOWN_PROXY = "X-Forwarded-For seen, but the app's `trust proxy` is off: all callers share one address"

const requestIds = new WeakMap<object, string>()

/** Gives an id to an Express request. The lines of the library's log and its RFC 9457 answers then contain the id. */
export function setRequestId(req: Request, id: string): void {
  requestIds.set(req, id)
}

/** Finds the id of an Express request. */
export function findRequestId(req: Request): string | undefined {
  return requestIds.get(req)
}

/** A request of Express, or of Node's server alone, such as an upgrade to a WebSocket. */
export type NodeRequest = IncomingMessage &
  Partial<Pick<Request, 'originalUrl' | 'baseUrl' | 'ip' | 'ips' | 'app' | 'accepts' | 'body'>>

/** Request of Express or Node with the interface that the endpoints read. */
export class ExpressRequest implements HttpRequest {
  readonly #req: NodeRequest
  /** Undefined for a request that a test or another framework made. */
  readonly #socket: Socket | undefined
  /** Id that the server gave to the request. */
  readonly id: string | undefined
  /** HTTP method in upper case. */
  readonly method: string
  /** Path and query as the client sent them. */
  readonly originalUrl: string
  /** Path of the router; empty at the root. */
  readonly mountPath: string
  /** Headers by lower-case names. */
  readonly headers: RequestHeaders
  /**
   * Address of the client according to the application's setting `trust proxy`. Empty if the connection is closed: such
   * requests share their budgets, so that nobody avoids a budget by disconnecting.
   */
  readonly clientAddress: string
  /** Warning if the request has `X-Forwarded-For` and the application trusts no proxy. */
  readonly unknownProxy: string | undefined
  /** Whether the socket of the request is destroyed. */
  readonly isGone = (): boolean => this.#socket?.destroyed === true

  constructor(req: NodeRequest) {
    this.#req = req
    this.id = requestIds.get(req)
    this.method = req.method ?? 'GET'
    this.originalUrl = req.originalUrl ?? req.url ?? ''
    this.mountPath = req.baseUrl ?? ''
    this.headers = req.headers
    this.#socket = req.socket
    const socket: Socket | undefined = req.ip === undefined ? req.socket : undefined
    this.clientAddress = req.ip ?? socket?.remoteAddress ?? ''
    const isForwarded = req.headers['x-forwarded-for'] !== undefined
    this.unknownProxy = isForwarded && !trustsProxy(req) ? UNKNOWN_PROXY : undefined
  }

  /** Whether `X-Forwarded-For` has more entries than the setting `trust proxy` covers. */
  get hasUntrustedProxies(): boolean {
    const { 'x-forwarded-for': forwarded } = this.headers
    if (forwarded === undefined || this.unknownProxy !== undefined) return false
    return String(forwarded).split(',').length > (this.#req.ips?.length ?? 0)
  }

  /** Cookies of the header `Cookie`, parsed at each access. */
  get cookies(): Readonly<Record<string, unknown>> {
    return parseCookies(this.#req.headers.cookie)
  }

  /** Returns the type that Express prefers among `types`, without it the first; false if the client accepts none. */
  accepts(types: string[]): string | false {
    return this.#req.accepts === undefined ? (types[0] ?? false) : this.#req.accepts(types)
  }

  /** Returns the body that a parser has read, or receives at most `maxBytes`: {@link HttpRequest.receiveBody}. */
  async receiveBody(maxBytes: number | undefined): Promise<unknown> {
    if (hasParsedBody(this.#req)) return this.#req.body as unknown
    if (this.#req.readableEnded) return {}
    return maxBytes === undefined ? undefined : receiveBytes(this.#req, maxBytes)
  }
}

/** Whether the application trusts a proxy. */
function trustsProxy(req: NodeRequest): boolean {
  const setting: unknown = req.app?.get('trust proxy')
  return setting !== undefined && setting !== false && setting !== 0
}

/**
 * Whether a body parser has read the body. An unread `{}` does not count: parsers of Express 4 set it for content types
 * that they skip.
 */
export function hasParsedBody(req: NodeRequest): boolean {
  const body: unknown = req.body
  const isPlaceholder = isObject(body) && Object.keys(body).length === 0 && !req.readableDidRead
  return body !== undefined && !isPlaceholder
}

/** Sends an answer. Keeps an `Access-Control-Allow-Origin` and cookies that the application has set. */
export function sendAnswer(res: Response, { status, headers, cookies, body = '', errorCode }: HttpAnswer): void {
  if (errorCode !== undefined) rememberErrorCode(res, errorCode)
  if (cookies !== undefined) res.appendHeader('Set-Cookie', [...cookies])
  // The length of a 304 would be that of the answer that the client has. A 204 may have none.
  const length = status === 304 || status === 204 ? {} : { 'Content-Length': Buffer.byteLength(body) }
  if (CORS_ORIGIN in headers && res.hasHeader(CORS_ORIGIN)) {
    const { [CORS_ORIGIN]: _ours, ...others } = headers
    res.writeHead(status, { ...others, ...length })
  } else res.writeHead(status, { ...headers, ...length })
  res.end(body)
}

async function receiveBytes(req: NodeRequest, maxBytes: number): Promise<Uint8Array> {
  if (Number(req.headers['content-length'] ?? 0) > maxBytes) throw new DidAuthError('ERR_TOO_LARGE')
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    req.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= maxBytes) {
        chunks.push(chunk)
        return
      }
      // The rest is read and dropped: closing the connection while the client sends could lose the answer.
      chunks.length = 0
      reject(new DidAuthError('ERR_TOO_LARGE'))
    })
    req.on('end', () => {
      req.off('close', onBroken)
      resolve(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks))
    })
    // ERR_JSON is a 400, because an early disconnect is not a failure of the service. The client gets no answer.
    const onBroken = (): void => {
      if (!req.readableEnded) reject(new DidAuthError('ERR_JSON'))
    }
    req.on('error', onBroken)
    req.on('close', onBroken)
    if (req.destroyed) onBroken()
    // The application may have paused the request, for example during a database query.
    req.resume()
  })
}
