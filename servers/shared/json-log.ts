import type { RequestHandler } from 'express'
import { pino, type DestinationStream, type Logger } from 'pino'
import type { ServerEnv } from './read-env.js'

/** JSON lines on standard output. Fields are chosen by whoever writes a line; nothing of a request gets in by itself. */
export function jsonLog(env: Pick<ServerEnv, 'LOG_LEVEL' | 'name'>, destination?: DestinationStream): Logger {
  const options = {
    level: env.LOG_LEVEL,
    base: { server: env.name },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    // A second lock: no line of ours has these.
    redact: [
      'authorization',
      'cookie',
      'sig',
      'accessToken',
      'refreshToken',
      'challenge',
      'privateKey',
      '*.authorization'
    ]
  }
  return destination === undefined ? pino(options) : pino(options, destination)
}

/** The one line that says that a server can be used; it is written at every log level. */
export function logReady(log: Logger, ready: { url: string; serviceUrl: string; serviceDid: string }): void {
  const line = `ready at ${ready.serviceUrl} as ${ready.serviceDid}`
  log.child({}, { level: 'info' }).info({ event: 'ready', ...ready }, line)
}

/** Names a request by one of a closed list of routes: a path may hold a DID, or anything a stranger writes. */
export type RouteName = (path: string) => string

/** One line a request: method, route, status, duration. Never a path, header, body or address. */
export function logRequests(log: Logger, routeName: RouteName): RequestHandler {
  return (req, res, next) => {
    const startedAt = performance.now()
    res.once('close', () => {
      const durationMilliseconds = Math.round((performance.now() - startedAt) * 1000) / 1000
      const fields = { event: 'request', method: req.method, route: routeName(req.path), status: res.statusCode }
      log.info({ ...fields, durationMilliseconds, isComplete: res.writableFinished }, 'request')
    })
    next()
  }
}
