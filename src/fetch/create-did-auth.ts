import { composeService, type Sessions } from '../compose-service.js'
import type { CorsSettings } from '../config/cors-options.js'
import type { DidAuthConfig } from '../config/options.js'
import { runAsClient } from '../current-client.js'
import { FetchRequest, parseTarget, toResponse } from './fetch-request.js'
import { createClient } from '../http/client-network.js'
import { createAuthenticator, type Authentication, type GuardOptions } from '../http/guard.js'
import { answerRequest, createRouteFinder, listRoutes } from '../http/routes.js'
import { createLazy } from '../lazy.js'
import { isObject } from '../protocol/json.js'

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
  /** The DID of the service, which verifiers of its tokens need as `issuer`. Rejects as `ready` does. */
  readonly serviceDid: Promise<string>
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
  /** Probes signer and store with the first request. Others do not wait: its client may disconnect and stop it. */
  const start = async (): Promise<void> => {
    if (hasStarted) return
    hasStarted = true
    await probe().catch(() => undefined)
  }
  /** Requests that `authenticate` has seen, so that errors are logged with their client. */
  const seen = new WeakMap<Request, FetchRequest>()
  const authenticateRequest = createAuthenticator(http, {
    async run(received, check) {
      await start()
      return runAsClient(() => createClient(received), check)
    }
  })

  async function authenticate(request: Request, options: AuthenticateOptions): Promise<Authentication>
  async function authenticate(
    request: Request,
    options: OptionalAuthenticateOptions
  ): Promise<Authentication | undefined>
  async function authenticate(
    request: Request,
    context: AuthenticateOptions | OptionalAuthenticateOptions
  ): Promise<Authentication | undefined> {
    assertContext(context, 'authenticate')
    const { clientAddress, mountPath = '', ...options } = context
    service.warnOfGuard(options, 'authenticate with deviceProof: true')
    const received = new FetchRequest(request, parseTarget(request.url, mountPath), clientAddress)
    seen.set(request, received)
    return authenticateRequest(request, received, options)
  }

  return {
    ...service.corsSettings,
    async fetch(request, context) {
      assertContext(context, 'fetch')
      const { clientAddress, mountPath = '' } = context
      const target = parseTarget(request.url, mountPath)
      const { path } = target
      const match = path === undefined ? undefined : findRoute({ method: request.method, path }, () => false)
      if (match === undefined) return undefined
      await start()
      const received = new FetchRequest(request, target, clientAddress)
      const answer = await runAsClient(
        () => createClient(received),
        () => answerRequest(http, match, received)
      )
      return toResponse(answer, request.method)
    },
    authenticate,
    errorResponse(error, request) {
      const received = seen.get(request) ?? new FetchRequest(request, parseTarget(request.url, ''), undefined)
      return toResponse(http.answerError(received, error), request.method)
    },
    get ready() {
      return probe()
    },
    get serviceDid() {
      return service.serviceDid()
    },
    sessions,
    close
  }
}

/** Asserts that a call has its second argument, which callers in JavaScript may forget. @throws TypeError */
function assertContext(context: unknown, method: string): void {
  if (isObject(context)) return
  const remedy = `pass the IP address of the client, as in didAuth.${method}(request, { clientAddress })`
  throw new TypeError(`${remedy}. undefined as clientAddress means: unknown, without budgets of client networks`)
}
