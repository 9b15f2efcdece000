import type { RequestListener } from 'node:http'
import cors from 'cors'
import express from 'express'
import type { ErrorRequestHandler, Express, Request, RequestHandler, Response } from 'express'
import { DidAuthError, type Store } from 'express-did-auth'
import { parseHttpUrl } from 'express-did-auth/server-kit'
import helmet from 'helmet'
import type { Logger } from 'pino'
import type { ServerEnv, ServerName } from '../config/read-env.js'
import type { Identity } from '../config/service-identity.js'
import { answerHealth, createReadiness, type Dependency } from '../observability/health-checks.js'
import { logRequest, watchRequests, type EndedRequest } from '../observability/logger.js'
import type { Metrics } from '../observability/metrics.js'
import { ServerError, createServerErrorSender } from './server-error.js'

const CORS = {
  allowedHeaders: ['Authorization', 'Content-Type', 'DID-Approval', 'Idempotency-Key', 'If-Match', 'If-None-Match'],
  exposedHeaders: [
    'Challenge-Expires-In',
    'ETag',
    'File-Expires-In',
    'Idempotent-Replayed',
    'Pin-Status',
    'Retry-After',
    'WWW-Authenticate'
  ],
  /** Seconds for which browsers cache the response to a preflight. */
  maxAge: 600
}

/** Dependencies of every server. */
export interface ServerAppParts {
  env: ServerEnv
  identity: Identity
  serviceUrl: string
  log: Logger
  /** Sessions, used challenges and quotas. */
  store: Store
  /** The server's own storage, and its clock. */
  dependencies: readonly Dependency[]
  metrics?: Metrics | undefined
  /** Aborts when the process is about to stop: `/ready` answers 503 from then on. */
  draining?: AbortSignal | undefined
  /** URLs of the servers of this process, as far as they have started. The page at the root of auth uses the others. */
  serviceUrls?: ReadonlyMap<ServerName, string> | undefined
}

/** A server that does not listen yet. */
export interface ServerApp {
  listener: RequestListener
  /** Resolves when it can be used; requests before that wait. */
  ready: Promise<void>
  /** Closes the resources that the application has opened, after its last response. */
  close(): Promise<void>
}

/**
 * Creates an application with the handlers before the routes of every server: trust in proxies, security headers, CORS,
 * log and metrics, `/health` and `/ready`.
 *
 * @param routes - first segments of paths by which log and metrics name requests that no route of Express handles
 * @param others - dependencies in addition to the server's own storage
 * @param isStarting - whether `/ready` is 503 in any case
 */
export function createApp(
  { env, log, dependencies, metrics, draining, serviceUrls }: Omit<ServerAppParts, 'identity' | 'serviceUrl' | 'store'>,
  routes: readonly string[],
  others: readonly Dependency[],
  isStarting = false
): Express {
  const app = express()
  app.disable('x-powered-by')
  app.disable('etag')
  app.set('trust proxy', env.TRUST_PROXY)
  app.use(helmet())
  const origins = listReadableOrigins({ env, serviceUrls })
  if (origins.length > 0) app.use(cors({ origin: origins, credentials: env.USE_COOKIES === true, ...CORS }))
  // Only if it is reported: it costs as much as all security headers.
  if (metrics !== undefined || log.isLevelEnabled('info')) {
    const onEnd = (ended: EndedRequest): void => {
      logRequest(log, ended)
      metrics?.count(env.name, ended)
    }
    app.use(watchRequests(routes, onEnd))
  }
  app.get('/health', answerHealth)
  const onNotReady = (reasons: Readonly<Record<string, string>>): void =>
    log.warn({ event: 'not-ready', reasons }, 'not ready')
  const { answer, watchFailures } = createReadiness([...dependencies, ...others], { draining, isStarting, onNotReady })
  app.get('/ready', answer)
  app.use(watchFailures)
  return app
}

/** Creates the application of a server that starts: it answers `/health`, and 503 to `/ready` and everything else. */
export function startingApp(parts: ServerAppParts): RequestListener {
  const app = createApp(parts, [], [], true)
  const sendError = createServerErrorSender(parts)
  app.use((req, res) => sendError(req, res, new DidAuthError('ERR_STORE', { retryAfterSeconds: 1 })))
  return requestListener(app)
}

/** Returns a handler that passes the errors of an async one to the error handlers, on Express 4 as well. */
export const asyncHandler =
  (answer: (req: Request, res: Response) => Promise<void>): RequestHandler =>
  (req, res, next) =>
    void answer(req, res).catch(next)

/** Adds the handlers after the routes: a response to every other request, and to every error. */
export function addFallbacks(app: Express, parts: Parameters<typeof createServerErrorSender>[0]): RequestListener {
  const sendError = createServerErrorSender(parts)
  app.use((req, res) => sendError(req, res, new ServerError('ERR_NOT_FOUND')))
  // Express recognises an error handler by its four parameters.
  const lastErrors: ErrorRequestHandler = (error: unknown, req, res, _next) =>
    sendError(req, res, error instanceof URIError ? new ServerError('ERR_PATH') : error)
  app.use(lastErrors)
  return requestListener(app)
}

/** Lists the origins whose pages may read responses. */
export function listReadableOrigins({ env, serviceUrls }: Pick<ServerAppParts, 'env' | 'serviceUrls'>): string[] {
  // Auth serves the page, which another server of the same process therefore trusts.
  const authUrl = env.PAGE && env.name !== 'auth' ? (serviceUrls?.get('auth') ?? '') : ''
  const origin = parseHttpUrl(authUrl)?.origin
  return origin === undefined ? env.CORS_ORIGINS : [...env.CORS_ORIGINS, origin]
}

/** A URL that Express cannot parse passes all our handlers. Express has a page for it, and Node even logs some. */
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
