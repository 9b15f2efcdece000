import type { RequestListener } from 'node:http'
import cors from 'cors'
import express, {
  type ErrorRequestHandler,
  type Express,
  type Request,
  type RequestHandler,
  type Response
} from 'express'
import helmet from 'helmet'
import type { ServerEnv } from '../environment/read-env.js'
import { ServerError, type SendError } from './server-error.js'

const EXPOSED_HEADERS = ['Challenge-Expires-In', 'ETag', 'Pin-Status', 'Retry-After', 'WWW-Authenticate']
const PREFLIGHT_SECONDS = 600

/** An application with what all servers have in common: security headers, CORS, trust in proxies. */
export function serverApp(env: Pick<ServerEnv, 'TRUST_PROXY' | 'CORS_ORIGINS' | 'USE_COOKIES'>): Express {
  const app = express()
  app.disable('x-powered-by')
  app.disable('etag')
  app.set('trust proxy', env.TRUST_PROXY)
  app.use(helmet())
  if (env.CORS_ORIGINS.length > 0) {
    const credentials = env.USE_COOKIES === true
    app.use(cors({ origin: env.CORS_ORIGINS, credentials, exposedHeaders: EXPOSED_HEADERS, maxAge: PREFLIGHT_SECONDS }))
  }
  return app
}

/** 404 for everything that no route took. */
export function notFound(sendError: SendError): RequestHandler {
  return (req, res) => {
    sendError(req, res, new ServerError('ERR_NOT_FOUND'))
  }
}

/** The last resort: a fixed text, never a stack or a page; the cause only in the log. */
export function lastErrors(sendError: SendError): ErrorRequestHandler {
  // Express knows an error handler by its four parameters.
  return (error: unknown, req, res, _next) => {
    sendError(req, res, error instanceof URIError ? new ServerError('ERR_PATH') : error)
  }
}

/**
 * The application for a socket. A URL that Express cannot parse passes all its handlers, ours for errors included, and
 * would be answered by a page of its own; Node even quotes some on standard error.
 */
export function requestListener(app: Express): RequestListener {
  return (req, res) => {
    const refuse = (): void => {
      if (res.headersSent) {
        res.destroy()
        return
      }
      res.writeHead(400, { 'Content-Type': 'text/plain; charset=utf-8', 'X-Content-Type-Options': 'nosniff' })
      res.end('Malformed path')
    }
    const { url = '' } = req
    if (url.startsWith('/') || URL.canParse(url)) app(req as Request, res as Response, refuse)
    else refuse()
  }
}
