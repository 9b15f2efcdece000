import type { IncomingMessage, ServerResponse } from 'node:http'
import { rememberService } from './adapters/mounted-services.js'
import { warnOfSharedPaths } from './adapters/reports.js'
import { composeService, type Sessions } from './compose-service.js'
import type { CorsSettings } from './config/cors-options.js'
import type { DidAuthConfig } from './config/options.js'
import { DidAuthError } from './errors.js'
import { runAsClient } from './current-client.js'
import './express-types.js'
import { createApprovalGuard, createDidGuard, type DescribeRequest, type Guarded } from './express/guards.js'
import { ExpressRequest, mountRoutes, type ExpressApp } from './express/express-routes.js'
import { createClient } from './http/client-network.js'
import { createAuthenticator, type Authentication, type GuardOptions } from './http/guard.js'

/** A middleware that protects a route. */
// A RequestHandler would replace the typed path parameters of the handlers after it.
export type Guard = (req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void) => void

/** The middleware that protects a route, with variants of it, the session API and the lifecycle. */
export interface RequireDid extends Guard, CorsSettings {
  /**
   * Creates a guard with options, such as a check that the session is still active.
   * @example
   * app.post('/payments', requireDid.with({ checkSession: true }), pay) // a logged out session cannot pay
   * app.get('/admin', requireDid.with({ allow: ({ claims }) => claims.role === 'admin' }), list)
   */
  with(options: GuardOptions): Guard
  /**
   * Creates a guard for which the user's wallet signs *this* request: its method, path, query and body, and a line that
   * tells the user what the request does. Place it before body parsers, because it reads the body itself. Behind it,
   * `req.body` is the parsed JSON (or the bytes of another type), and `req.auth.approval` is the signed evidence.
   * @param describe - returns the line that the wallet shows to the user
   * @throws DidAuthError ERR_CONFIG without the option `siwe`, because the guard accepts that option's domains
   * @example
   * app.post('/transfer', requireDid.approved(({ body }) => `Send ${body.amount} RBTC to ${body.to}`), transfer)
   */
  approved(describe: DescribeRequest): Guard
  /** Lets a request without a token pass, with `req.user` undefined. It still refuses an invalid token. */
  readonly optional: Guard
  /**
   * Finds the user of a request that passes no middleware, such as an upgrade to a WebSocket or any `IncomingMessage`.
   * It answers nothing, and sets neither `req.user` nor `req.auth`. In cookie mode it checks the origin as for unsafe
   * methods, whatever the method, because browsers let every site open a WebSocket. A request is charged once.
   * @throws DidAuthError as a guard answers: `errorStatuses[error.code]` is its status; any error that `allow` throws
   * @example
   * const { user, auth } = await requireDid.authenticate(req, { checkSession: true })
   */
  authenticate(
    req: IncomingMessage,
    options?: Omit<GuardOptions, 'optional'> & { optional?: false | undefined }
  ): Promise<Authentication>
  /** Does the same, or returns undefined for a request without token. */
  authenticate(req: IncomingMessage, options: GuardOptions): Promise<Authentication | undefined>
  /** The DID of the service, which verifiers of its tokens need as `issuer`. Rejects as `ready` does. */
  readonly serviceDid: Promise<string>
  /**
   * Resolves once signature library, signer and store are ready; rejects if one of them fails. You need not await it:
   * requests wait for the same parts, and each request tries again after a failure.
   */
  readonly ready: Promise<void>
  /** Lists and ends sessions on the server's side, for account pages and operators. */
  readonly sessions: Sessions
  /** Closes everything that setup opened. A store that you passed in stays open: close it yourself. */
  close(): Promise<void>
}

/**
 * Adds DID login to an Express application: routes for challenge, sign up, login, refresh and logout.
 *
 * The application's other routes do not change: body reader, cookie reader and error handler serve only the login's
 * routes. If the application's own body parser refuses a body on a login route, the client still gets this package's
 * error answer. This requires parser and routes on the same application or router, because Express passes errors to no
 * router below.
 * @param app - an application or router; its own parsers may come before or after
 * @returns the middleware for protected routes; behind it, `req.user.did` is the user's DID
 * @throws DidAuthError ERR_CONFIG, which lists all problems; TypeError if `app` is not an application or router
 * @example
 * const requireDid = setupDidAuth(app, { challengeSecret, serviceUrl, serviceSigner: es256kSigner(privateKey) })
 * app.get('/profile', requireDid, (req, res) => res.json(req.user))
 */
export function setupDidAuth(app: ExpressApp, config: DidAuthConfig): RequireDid {
  if (!isExpressApp(app)) {
    throw new TypeError('setupDidAuth(app, config) needs an application or router of Express as its first argument')
  }
  const service = composeService(config)
  const { http, settings, logger, sessions, close } = service
  for (const warning of warnOfSharedPaths(app, { ...settings.paths })) logger.warn({ event: 'configuration' }, warning)
  mountRoutes(app, http)
  const { requestAuth: requestAuthPath, auth: authPath } = settings.paths
  rememberService(app, { serviceUrl: settings.serviceUrl, requestAuthPath, authPath })

  const ready = service.probe()
  // If the application does not await `ready`, it sees the failure in error answers and in the log.
  ready.catch(() => undefined)

  const guard = (options: GuardOptions = {}): Guard => {
    service.warnOfGuard(options, 'requireDid.with({ deviceProof: true })')
    // `Guard` is typed for requests of Node; Express passes its own, which extend them.
    return createDidGuard(http, options) as unknown as Guard
  }

  const authenticate = createAuthenticator(http, {
    isUnsafe: true,
    run: (request, check) => runAsClient(() => createClient(request), check)
  })

  const requireDid = Object.assign(guard({}), {
    with: guard,
    // Undefined only with `optional`, as the overloads of `RequireDid` say.
    authenticate: (async (req, options = {}) => {
      service.warnOfGuard(options, 'authenticate with deviceProof: true')
      return authenticate(req, new ExpressRequest(req), options, (req as Guarded).auth)
    }) as RequireDid['authenticate'],
    approved(describe: DescribeRequest) {
      const { siwe } = settings
      if (siwe === undefined) {
        throw new DidAuthError('ERR_CONFIG', { message: 'express-did-auth: requireDid.approved needs the option siwe' })
      }
      if (typeof describe !== 'function') throw new TypeError('requireDid.approved(describe) needs a function')
      return createApprovalGuard(http, siwe, describe) as unknown as Guard
    },
    optional: guard({ optional: true }),
    ...service.corsSettings,
    ready,
    sessions,
    close
  })
  // A getter asks again after a failure.
  return Object.defineProperty(requireDid, 'serviceDid', { get: service.serviceDid, enumerable: true }) as RequireDid
}

/** Whether a value is an application or router. Callers in JavaScript may pass any value. */
function isExpressApp(value: unknown): boolean {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return false
  return 'use' in value && typeof value.use === 'function'
}
