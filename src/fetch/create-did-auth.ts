import { composeService, type Sessions } from '../compose-service.js'
import type { CorsSettings } from '../config/cors-options.js'
import type { DidAuthConfig } from '../config/options.js'
import { clientTracking, currentClient } from '../current-client.js'
import { assertAllowed, assertOptions, type DidAuthInfo } from '../did-auth-info.js'
import { FetchRequest, parseTarget, toResponse } from './fetch-request.js'
import { createClient } from '../http/client-network.js'
import { guardOptionNames, hasToken, passWithDid, type GuardOptions } from '../http/guard.js'
import { answerRequest, createRouteFinder, listRoutes } from '../http/routes.js'
import { createLazy } from '../lazy.js'

/** Circumstances of a request, which a `Request` does not contain. */
export interface RequestContext {
  /**
   * IP address of the client, as your server knows it. Take it from a header only if a proxy of yours has set it.
   * Undefined, or no IP address: the budgets of client networks are not applied.
   */
  clientAddress: string | undefined
  /** Path below which your application mounts the login, such as `/api`. Default: the root. */
  mountPath?: string | undefined
}

/** Options of `authenticate`. */
export interface AuthenticateOptions extends RequestContext, Omit<GuardOptions, 'optional'> {
  /** Whether a request without token has no user, instead of ERR_ACCESS_TOKEN_MISSING. Default false. */
  optional?: false | undefined
}

/** Options of `authenticate` that make the login optional. An invalid token is still refused. */
export interface OptionalAuthenticateOptions extends RequestContext, GuardOptions {
  /** Whether a request without a token is accepted, with the result undefined. */
  optional: boolean
}

/** The user of a request with a valid access token. */
export interface Authentication {
  /** The DID as received at login. Look accounts up by `auth.canonicalDid`; ban keys by `auth.address`. */
  user: { did: string }
  /** Session, claims and comparable forms of the DID. */
  auth: DidAuthInfo
}

/** The login of one service, for applications that turn a `Request` into a `Response`. */
export interface DidAuth extends CorsSettings {
  /**
   * Answers a request to one of the login's routes, its errors included. Give it requests whose body was not read.
   * @returns undefined if the request is not for the login: your application answers it
   */
  fetch(request: Request, context: RequestContext): Promise<Response | undefined>
  /**
   * Finds the user of a request to your own route. A request is charged once, also if this is called again after it.
   * @throws DidAuthError, which `errorResponse` answers: ERR_ACCESS_TOKEN_MISSING, ERR_ACCESS_TOKEN,
   * ERR_ACCESS_TOKEN_EXPIRED, ERR_TOO_MANY_REQUESTS, ERR_CROSS_ORIGIN, ERR_DUPLICATE_COOKIE, ERR_STORE; with
   * `checkSession` ERR_SESSION_ENDED; with `deviceProof` ERR_DEVICE_PROOF, ERR_DEVICE_NONCE; with `allow` ERR_FORBIDDEN
   * and any error that it throws
   */
  authenticate(request: Request, options: AuthenticateOptions): Promise<Authentication>
  /** Does the same, or returns undefined for a request without token. */
  authenticate(request: Request, options: OptionalAuthenticateOptions): Promise<Authentication | undefined>
  /** Logs an error of a request, and answers it. An error of another class is a 500 without details. */
  errorResponse(error: unknown, request: Request): Response
  /**
   * Resolves once signature library, signer and store are ready; rejects if one of them fails. They start when you read
   * it, or with the first request. You need not await it.
   */
  readonly ready: Promise<void>
  /** Lists and ends sessions on the server's side, for account pages and operators. */
  readonly sessions: Sessions
  /** Closes everything that `createDidAuth` opened. A store that you passed in stays open: close it yourself. */
  close(): Promise<void>
}

/**
 * Adds DID login to any application that turns a `Request` into a `Response`: Hono, Next.js, Bun, Deno, Workers. It has
 * the routes, options, limits and errors of `setupDidAuth`.
 *
 * Before the first request it does no I/O, starts no timer and needs no random number, so that it may run in the global
 * scope of a Worker.
 * @throws DidAuthError ERR_CONFIG, which lists all problems
 * @example
 * const didAuth = createDidAuth({ challengeSecret, serviceUrl, serviceSigner: es256kSigner(privateKey), store })
 * const response = await didAuth.fetch(request, { clientAddress })
 * if (response !== undefined) return response
 * const { user } = await didAuth.authenticate(request, { clientAddress })
 */
export function createDidAuth(config: DidAuthConfig): DidAuth {
  const service = composeService(config)
  const { http, settings, sessions, close } = service
  const findRoute = createRouteFinder(listRoutes(settings))
  const probe = createLazy(service.probe)
  let hasStarted = false
  let hasWarned = false
  /** Probes signer and store with the first request. Others do not wait: its client may disconnect and stop it. */
  const start = async (): Promise<void> => {
    if (hasStarted) return
    hasStarted = true
    await probe().catch(() => undefined)
  }
  /** Requests that `authenticate` has seen, so that none is charged twice, and errors are logged with their client. */
  const seen = new WeakMap<Request, { received: FetchRequest; auth: DidAuthInfo | undefined }>()

  async function authenticate(request: Request, options: AuthenticateOptions): Promise<Authentication>
  async function authenticate(
    request: Request,
    options: OptionalAuthenticateOptions
  ): Promise<Authentication | undefined>
  async function authenticate(
    request: Request,
    { clientAddress, mountPath = '', ...options }: AuthenticateOptions | OptionalAuthenticateOptions
  ): Promise<Authentication | undefined> {
    assertOptions(options, guardOptionNames)
    if (options.deviceProof === true && !hasWarned) {
      hasWarned = true
      service.warnOfGuard(options, 'authenticate with deviceProof: true')
    }
    const received = new FetchRequest(request, parseTarget(request.url, mountPath), clientAddress)
    const countedAuth = seen.get(request)?.auth
    seen.set(request, { received, auth: countedAuth })
    if (options.optional === true && !hasToken(http, received)) return undefined
    await start()
    const { user, auth } = await runAsClient(received, () => passWithDid(http, received, options, countedAuth))
    seen.set(request, { received, auth })
    await assertAllowed(options.allow, auth)
    return { user: { did: user.claims.sub }, auth }
  }

  return {
    ...service.corsSettings,
    async fetch(request, { clientAddress, mountPath = '' }) {
      const target = parseTarget(request.url, mountPath)
      const { path } = target
      const match = path === undefined ? undefined : findRoute({ method: request.method, path }, () => false)
      if (match === undefined) return undefined
      await start()
      const received = new FetchRequest(request, target, clientAddress)
      const answer = await runAsClient(received, () => answerRequest(http, match, received))
      return toResponse(answer, request.method)
    },
    authenticate,
    errorResponse(error, request) {
      const received = seen.get(request)?.received ?? new FetchRequest(request, parseTarget(request.url, ''), undefined)
      return toResponse(http.answerError(received, error), request.method)
    },
    get ready() {
      return probe()
    },
    sessions,
    close
  }
}

/** Handles a request. While {@link clientTracking} is on, everything that `handle` starts knows the client. */
function runAsClient<T>(request: FetchRequest, handle: () => T): T {
  return clientTracking.isOn ? currentClient.run(createClient(request), handle) : handle()
}
