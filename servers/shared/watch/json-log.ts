import type { Request, RequestHandler } from 'express'
import { pino, type DestinationStream, type Logger } from 'pino'
import type { ServerEnv } from '../environment/read-env.js'

/**
 * JSON lines on standard output, each written before the next thing happens: pino's own way loses the order of the last
 * lines, or writes one twice, when the process ends.
 *
 * Fields are chosen by whoever writes a line; nothing of a request gets in by itself.
 */
export function jsonLog(
  env: Pick<ServerEnv, 'LOG_LEVEL' | 'name'>,
  destination: DestinationStream = pino.destination({ dest: 1, sync: true })
): Logger {
  const options = {
    level: env.LOG_LEVEL,
    base: { server: env.name },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    // A second lock: no line of ours has these.
    redact: ['authorization', 'cookie', 'sig', 'accessToken', 'refreshToken', 'challenge', 'privateKey']
  }
  return pino(options, destination)
}

/** The one line that says that a server can be used; it is written at every log level. */
export function logReady(log: Logger, ready: { url: string; serviceUrl: string; serviceDid: string }): void {
  const line = `ready at ${ready.serviceUrl} as ${ready.serviceDid}`
  log.child({}, { level: 'info' }).info({ event: 'ready', ...ready }, line)
}

/** One request that is over. */
export interface EndedRequest {
  method: string
  /** One of a closed list: a path may hold a DID, or anything a stranger writes. */
  route: string
  /** 0: the client was gone before there was an answer. */
  status: number
  seconds: number
}

/** Tells of each request when it is over. Never of its path, headers, body or address. */
export function watchRequests(routes: readonly string[], tell: (ended: EndedRequest) => void): RequestHandler {
  const known = new Set(routes)
  return (req, res, next) => {
    const startedAt = performance.now()
    const first = /^\/[^/?]*/.exec(req.url)?.[0].toLowerCase() ?? ''
    res.once('close', () => {
      const route = known.has(first) ? first : patternOf(req)
      const status = res.headersSent ? res.statusCode : 0
      tell({ method: req.method, route, status, seconds: (performance.now() - startedAt) / 1000 })
    })
    next()
  }
}

/** The pattern of the route of Express that took a request: `/:did/:key`, never what stood in its place. */
function patternOf(req: Request): string {
  const route = req.route as unknown
  const isRoute = typeof route === 'object' && route !== null && 'path' in route
  return isRoute && typeof route.path === 'string' ? route.path : 'other'
}

/** One line a request. */
export function logRequest(log: Logger, { seconds, ...fields }: EndedRequest): void {
  log.info({ event: 'request', ...fields, milliseconds: Math.round(seconds * 1e6) / 1e3 }, 'request')
}
