import { randomUUID } from 'node:crypto'
import type { RequestListener } from 'node:http'
import cors from 'cors'
import express from 'express'
import type { ErrorRequestHandler, Express, Request, RequestHandler, Response } from 'express'
import { DidAuthError, type Store } from 'express-did-auth'
import { CORS_ALLOWED_HEADERS, CORS_EXPOSED_HEADERS, CORS_MAX_AGE_SECONDS } from 'express-did-auth/server-kit'
import { findErrorCode, findRequestId, parseHttpUrl, setRequestId } from 'express-did-auth/server-kit'
import helmet from 'helmet'
import type { Logger } from 'pino'
import type { ServerEnv, ServerName } from '../config/read-env.js'
import type { Identity } from '../config/service-identity.js'
import { answerHealth, createReadiness, type Dependency } from '../observability/health-checks.js'
import { logRequest, type EndedRequest } from '../observability/logger.js'
import type { Metrics, Samples } from '../observability/metrics.js'
import { ServerError, createServerErrorSender } from './server-error.js'

const CORS = {
  allowedHeaders: [...CORS_ALLOWED_HEADERS, 'If-Match', 'If-None-Match', 'Vault-Key'],
  exposedHeaders: [...CORS_EXPOSED_HEADERS, 'ETag', 'File-Expires-In', 'Pin-Status', 'X-Request-Id'].sort(),
  maxAge: CORS_MAX_AGE_SECONDS
}

/** Parts of every server. */
export interface ServerAppParts {
  env: ServerEnv
  identity: Identity
  serviceUrl: string
  log: Logger
  /** Sessions, used challenges and quotas. */
  store: Store
  /** Dependencies for `/ready`: the server's own storage and its clock. */
  dependencies: readonly Dependency[]
  metrics?: Metrics | undefined
  /** Aborts when the process is about to stop. `/ready` then answers 503. */
  draining?: AbortSignal | undefined
  /** URLs of the started servers of this process. The page of auth uses those of relay and vault. */
  serviceUrls?: ReadonlyMap<ServerName, string> | undefined
  /** URLs at which the servers of this process listen. */
  listenUrls?: ReadonlyMap<ServerName, string> | undefined
}

/** Application of a server. */
export interface ServerApp {
  listener: RequestListener
  /** Resolves when the application is ready. Earlier requests wait. */
  ready: Promise<void>
  /** URL of the page for users, if the application serves it. */
  pageUrl?: string | undefined
  /** Closes the resources of the application. Call it after the last response. */
  close(): Promise<void>
}

/**
 * Creates an application with the handlers that all servers need before their routes: trust proxy, security headers,
 * CORS, log and metrics, `/health` and `/ready`.
 *
 * @param routes - first path segments by which log and metrics name requests
 * @param otherDependencies - dependencies in addition to those of the parts
 * @param isStarting - whether `/ready` always answers 503
 */
export function createApp(
  { env, log, dependencies, metrics, draining, serviceUrls }: Omit<ServerAppParts, 'identity' | 'serviceUrl' | 'store'>,
  routes: readonly string[],
  otherDependencies: readonly Dependency[],
  isStarting = false
): Express {
  const app = express()
  app.disable('x-powered-by')
  app.disable('etag')
  app.set('trust proxy', env.TRUST_PROXY)
  app.use(addRequestId, helmet())
  const origins = listReadableOrigins({ env, serviceUrls })
  if (origins.length > 0) {
    const handleCors = cors({ origin: origins, credentials: env.USE_COOKIES === true, ...CORS })
    // The library answers preflight requests of every origin to public documents and to the token endpoint.
    app.use((req, res, next) => (isPublicPreflight(req, env.name) ? next() : handleCors(req, res, next)))
  }
  const onNotReady = (reasons: Readonly<Record<string, string>>, req: Request): void =>
    log.warn(
      { event: 'not-ready', requestId: findRequestId(req), reasons },
      'a needed dependency is unavailable: /ready answers 503'
    )
  const readiness = createReadiness([...dependencies, ...otherDependencies], { draining, isStarting, onNotReady })
  const server = env.name
  const toSample = (isUp: boolean, labels = {}): Samples[0] => ({ labels: { server, ...labels }, value: Number(isUp) })
  // The application for the time of the start does not check dependencies. The next one replaces its value.
  metrics?.watch('did_auth_ready', async () => [toSample(!isStarting && (await readiness.read()).status === 'ready')])
  const readDependencies = async (): Promise<Samples> => {
    const { states } = await readiness.read()
    const configured = states.filter(({ success }) => success !== 'none')
    return configured.map(({ name, reason }) => toSample(reason === undefined, { dependency: name }))
  }
  if (!isStarting) metrics?.watch('did_auth_dependency_up', readDependencies)
  const isLogged = log.isLevelEnabled('info')
  app.use(
    watchRequests(new Set(routes), (ended) => {
      if (ended.status === 503 && ended.route !== '/ready') readiness.checkAgain()
      if (isLogged) logRequest(log, ended)
      metrics?.count(server, ended)
    })
  )
  app.get('/health', answerHealth)
  app.get('/ready', readiness.answer)
  return app
}

/** Request ids that are accepted from clients and proxies. */
const REQUEST_ID = /^[\w.-]{1,64}$/

/** Gives each request an id: its own `X-Request-Id` if it is valid, otherwise a random one. The answer contains it. */
const addRequestId: RequestHandler = (req, res, next) => {
  // Node joins several headers with a comma, which an id must not contain.
  const received = String(req.headers['x-request-id'] ?? '')
  const id = REQUEST_ID.test(received) ? received : randomUUID()
  setRequestId(req, id)
  res.setHeader('X-Request-Id', id)
  next()
}

/** Paths of attempts that metrics count by their outcome. */
const ATTEMPTS: ReadonlyMap<string, EndedRequest['attempt']> = new Map([
  ['/auth', 'challenge'],
  ['/signup', 'signup'],
  ['/siwe/verify', 'siwe'],
  ['/token', 'machine'],
  ['/refresh-token', 'refresh']
])

/** Creates a handler that reports each request at its end. It names requests by the first segments of `routes`. */
function watchRequests(routes: ReadonlySet<string>, onEnd: (request: EndedRequest) => void): RequestHandler {
  return (req, res, next) => {
    const startedAt = performance.now()
    const firstSegment = /^\/[^/?]*/.exec(req.url)?.[0].toLowerCase() ?? ''
    // At the vault, `/token` and `/siwe` are keys.
    const isAttempt = req.method === 'POST' && routes.has(firstSegment)
    // Express accepts one slash at the end.
    const attempt = isAttempt ? ATTEMPTS.get(req.path.toLowerCase().replace(/\/$/, '')) : undefined
    res.once('close', () => {
      const route = routes.has(firstSegment) ? firstSegment : findPattern(req)
      const status = res.headersSent ? res.statusCode : 0
      const code = status < 400 ? undefined : findErrorCode(res)
      const seconds = (performance.now() - startedAt) / 1000
      const requestId = String(res.getHeader('X-Request-Id'))
      onEnd({ method: req.method, route, status, code, attempt, requestId, seconds })
    })
    next()
  }
}

/** Returns the pattern of the Express route that handled a request, such as `/:did/:key`, without its values. */
function findPattern(req: Request): string {
  const { path } = Object(req.route) as { path?: unknown }
  return typeof path === 'string' ? path : 'other'
}

/** Creates the application for the time of the start. All requests except `/health` get 503. */
export function startingApp(parts: ServerAppParts): RequestListener {
  const app = createApp(parts, [], [], true)
  const sendError = createServerErrorSender(parts)
  app.use((req, res) => sendError(req, res, new DidAuthError('ERR_STORE', { retryAfterSeconds: 1 })))
  return requestListener(app)
}

/** Wraps an async handler so that its errors reach the error handlers, also on Express 4. */
export const asyncHandler =
  (handle: (req: Request, res: Response) => Promise<void>): RequestHandler =>
  (req, res, next) =>
    void handle(req, res).catch(next)

/** Adds the handlers after the routes: they answer every other request with 404, and every error. */
export function addFallbacks(app: Express, parts: Parameters<typeof createServerErrorSender>[0]): RequestListener {
  const sendError = createServerErrorSender(parts)
  app.use((req, res) => sendError(req, res, new ServerError('ERR_NOT_FOUND')))
  // Express recognises an error handler by its four parameters.
  const handleError: ErrorRequestHandler = (error: unknown, req, res, _next) =>
    sendError(req, res, error instanceof URIError ? new ServerError('ERR_PATH') : error)
  app.use(handleError)
  return requestListener(app)
}

/** Lists the origins whose pages may read responses. */
export function listReadableOrigins({ env, serviceUrls }: Pick<ServerAppParts, 'env' | 'serviceUrls'>): string[] {
  // The page of auth needs the responses of the other servers of the process.
  const authUrl = env.PAGE && env.name !== 'auth' ? (serviceUrls?.get('auth') ?? '') : ''
  const origin = parseHttpUrl(authUrl)?.origin
  return origin === undefined ? env.CORS_ORIGINS : [...env.CORS_ORIGINS, origin]
}

function isPublicPreflight({ method, path }: Request, server: ServerName): boolean {
  const isPublic = path.startsWith('/.well-known/') || (server === 'auth' && path === '/token')
  return method === 'OPTIONS' && isPublic
}

/** Creates a listener that answers 400 to a URL that Express cannot parse. Express would answer with an HTML page. */
function requestListener(app: Express): RequestListener {
  return (req, res) => {
    const refuse = (): void => {
      const headers = { 'Content-Type': 'text/plain; charset=utf-8', 'X-Content-Type-Options': 'nosniff' }
      if (res.headersSent) res.destroy()
      else res.writeHead(400, headers).end('Malformed path')
    }
    const { url = '' } = req
    if (url.startsWith('/') || URL.canParse(url)) app(req as Request, res as Response, refuse)
    else refuse()
  }
}
