import type { RequestListener } from 'node:http'
import type { Express } from 'express'
import type { Logger } from 'pino'
import { lastErrors, notFound, requestListener, serverApp } from './http-defaults.js'
import type { SendError } from './server-error.js'
import type { Identity } from '../environment/identity.js'
import { logRequest, watchRequests } from '../watch/json-log.js'
import type { Metrics } from '../watch/metrics.js'
import { health, readiness, type Dependency } from '../watch/readiness.js'
import type { ServerEnv } from '../environment/read-env.js'

/** What every server is built of. */
export interface ShellParts {
  env: ServerEnv
  identity: Identity
  serviceUrl: string
  log: Logger
  metrics?: Metrics | undefined
}

/** A server without its socket. */
export interface ServerApp {
  listener: RequestListener
  /** Resolves when it can be used; requests wait by themselves. */
  ready: Promise<void>
  /** Lets go of what it opened itself, after its last answer. */
  close(): Promise<void>
}

/**
 * An application with what comes before the routes of every server: security headers, CORS, log and metrics, `/health` and
 * `/ready`.
 *
 * @param routes - first segments of paths by which log and metrics call requests that no route of Express takes
 */
export function appShell(
  { env, log, metrics }: Pick<ShellParts, 'env' | 'log' | 'metrics'>,
  routes: readonly string[],
  dependencies: readonly Dependency[]
): Express {
  const app = serverApp(env)
  // Where nobody is told, nobody watches: it costs as much as all security headers.
  if (metrics !== undefined || log.isLevelEnabled('info')) {
    app.use(
      watchRequests(routes, (ended) => {
        logRequest(log, ended)
        metrics?.count(env.name, ended)
      })
    )
  }
  app.get('/health', health)
  app.get('/ready', readiness(dependencies))
  return app
}

/** Puts what comes after the routes on the application: an answer for everything else. */
export function sealed(app: Express, sendError: SendError): RequestListener {
  app.use(notFound(sendError))
  app.use(lastErrors(sendError))
  return requestListener(app)
}
