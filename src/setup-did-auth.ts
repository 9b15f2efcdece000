import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ErrorRequestHandler, RequestHandler } from 'express'
import { cachedIssuerKeys } from './adapters/cached-issuer-keys.js'
import { consoleLogger } from './adapters/console-logger.js'
import { credentialVerifier } from './adapters/credential-verifier.js'
import { loadCurve } from './adapters/curve.js'
import { ethrDidResolver, type ClosableDidResolver } from './adapters/ethr-did-resolver.js'
import { EventLoopTurns } from './adapters/event-loop-turns.js'
import { guardedStore } from './adapters/guarded-store.js'
import { MemoryStore } from './adapters/memory-store.js'
import { MemoryVerifiedTokens } from './adapters/memory-verified-tokens.js'
import { signerServiceKey } from './adapters/signer-service-key.js'
import { systemClock, systemRandom, timerDeadline } from './adapters/system.js'
import type { DidAuthConfig } from './config-options.js'
import { configWarnings, parseConfig, type Settings } from './config.js'
import type { Parts } from './flows/parts.js'
import { describeCause } from './http/describe-cause.js'
import './http/express-types.js'
import { requestLimits } from './http/limit-requests.js'
import { requireDidHandler, type HttpParts } from './http/require-did.js'
import { didAuthRoutes } from './http/routes.js'
import { errorSender } from './http/send-error.js'
import { bodyTransport, cookieTransport } from './http/token-transport.js'
import type { Clock } from './ports.js'
import { canonicalDid } from './protocol/did.js'
import type { Session } from './protocol/session.js'

/** Any Express 4.18+ or 5 application or router. */
export interface ExpressApp {
  use(handler: RequestHandler): unknown
  use(path: RegExp, handler: ErrorRequestHandler): unknown
}

/** Looks after the sessions of users, for account pages and operators. */
export interface Sessions {
  /** A user's active sessions, the newest first. @throws DidAuthError ERR_STORE */
  list(did: string): Promise<Session[]>
  /**
   * Ends one session; true when it was active. Its access token stays good until its `exp`.
   *
   * It does not look at whose session it is: where a user names the session, look for it in `list(did)` first.
   *
   * @throws DidAuthError ERR_STORE
   */
  revoke(sessionId: string): Promise<boolean>
  /** Ends all sessions of a user and answers how many there were. @throws DidAuthError ERR_STORE */
  revokeAll(did: string): Promise<number>
}

/** The middleware that protects a route, and what belongs to it. */
export interface RequireDid {
  // As a RequestHandler it would take the typed path parameters from the handlers behind it.
  (req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void): void
  /** Resolves when curve, signer and store can work; rejects when one cannot. Requests wait and retry by themselves. */
  readonly ready: Promise<void>
  readonly sessions: Sessions
  /** Lets go of what setup opened. A store that was given is its giver's to close. */
  close(): Promise<void>
}

/**
 * Puts DID login on an Express application: the challenge, sign up, login, refresh and logout routes.
 *
 * Nothing else is changed on the application: body reader, cookie reading and error handler are for our routes alone. What
 * the application's own body parser refuses on one of them is answered in our words as well, where parser and routes are
 * on the same application or router: Express hands errors down to none.
 *
 * @param app - an application or router, before or after its own parsers
 * @returns the middleware for protected routes; behind it `req.user.did` is the user
 * @throws DidAuthError ERR_CONFIG, naming every problem at once
 * @example
 * ```ts
 * const requireDid = setupDidAuth(app, { challengeSecret, serviceUrl, serviceDid, serviceSigner })
 * app.get('/profile', requireDid, (req, res) => res.json(req.user))
 * ```
 */
export function setupDidAuth(app: ExpressApp, config: DidAuthConfig): RequireDid {
  const settings = parseConfig(config)
  const logger = config.logger ?? consoleLogger
  const clock = wholeSeconds(config.clock ?? systemClock)
  const store = config.store === undefined ? new MemoryStore() : guardedStore(config.store, timerDeadline)
  const hasOwnStore = config.store !== undefined && !(config.store instanceof MemoryStore)
  const environment = { hasOwnStore, isProduction: process.env.NODE_ENV === 'production' }
  for (const warning of configWarnings(settings, environment)) logger.warn({ event: 'configuration' }, warning)

  const resolver = resolverOf(settings)
  let loading: Promise<Parts> | undefined
  const load = async (): Promise<Parts> => {
    const curve = await loadCurve()
    const turns = new EventLoopTurns()
    return {
      settings,
      clock,
      random: systemRandom,
      curve,
      serviceKey: signerServiceKey(
        { curve, deadline: timerDeadline, logger },
        settings.serviceSigner,
        settings.serviceDid
      ),
      store,
      verifiedTokens: new MemoryVerifiedTokens(),
      credentialVerifier: credentialVerifier({
        curve,
        turns,
        issuerKeys: cachedIssuerKeys({ clock, deadline: timerDeadline }, resolver),
        provesByAddress: settings.resolution.kind === 'ethr' && settings.resolution.provesByAddress
      }),
      turns,
      deadline: timerDeadline,
      logger
    }
  }
  const parts = (): Promise<Parts> =>
    (loading ??= load().catch((error: unknown) => {
      // The next request tries again.
      loading = undefined
      throw error
    }))

  const http: HttpParts = {
    parts,
    transport: settings.useCookies ? cookieTransport(settings.sessionSeconds) : bodyTransport,
    limits: requestLimits({ settings, store, clock, logger }),
    sendError: errorSender(settings.serviceUrl, logger),
    useCookies: settings.useCookies,
    trustedOrigins: settings.trustedOrigins
  }
  const { answerRequest, answerParserError, ownPaths } = didAuthRoutes(http, settings.paths)
  app.use(answerRequest)
  app.use(ownPaths, answerParserError)

  const ready = parts().then(async ({ serviceKey }) => {
    await Promise.all([serviceKey.publicKey(), store.ping()])
  })
  // Whoever does not ask for `ready` learns of a failure from the answers and the log.
  ready.catch((error: unknown) => {
    logger.error({ event: 'not-ready', cause: describeCause(error) }, 'not ready yet')
  })

  const { serviceUrl } = settings
  return Object.assign(parseAnyRequest(requireDidHandler(http)), {
    ready,
    sessions: {
      list: (did: string) => store.listSessions(serviceUrl, canonicalDid(did), clock.nowSeconds()),
      revoke: (sessionId: string) => store.endSession(serviceUrl, sessionId, 'revoked', clock.nowSeconds()),
      revokeAll: (did: string) => store.revokeSessions(serviceUrl, canonicalDid(did), clock.nowSeconds())
    },
    async close() {
      resolver.close()
      if (config.store === undefined) await store.close()
    }
  })
}

/** Express hands its own requests to whatever takes a request of Node. */
function parseAnyRequest(handler: RequestHandler): (...args: Parameters<RequireDid>) => void {
  return handler as unknown as (...args: Parameters<RequireDid>) => void
}

function resolverOf({ resolution }: Settings): ClosableDidResolver {
  if (resolution.kind === 'ethr') return ethrDidResolver(resolution.networks, resolution.registry)
  const { resolver } = resolution
  return {
    resolve: (did) => resolver.resolve(did),
    close() {
      // The application's own.
    }
  }
}

function wholeSeconds(clock: Clock): Clock {
  return { nowSeconds: () => Math.floor(clock.nowSeconds()) }
}
