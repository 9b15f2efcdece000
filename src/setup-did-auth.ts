import type { IncomingMessage, ServerResponse } from 'node:http'
import { createIssuerKeyCache, createDocumentControllers } from './adapters/cached-issuer-keys.js'
import { createContractWallets } from './adapters/contract-wallets.js'
import { createCredentialVerifier } from './adapters/credential-verifier.js'
import { loadCurve } from './adapters/curve.js'
import { computeDid, findLocalKey } from './adapters/es256k-signer.js'
import { createEthrDidResolver, type ClosableDidResolver } from './adapters/ethr-did-resolver.js'
import { EventLoopScheduler } from './adapters/event-loop-scheduler.js'
import { createSignatureCache } from './adapters/in-flight-requests.js'
import { rememberService } from './adapters/mounted-services.js'
import { curveWithPreviousKeys } from './adapters/named-keys.js'
import { consoleLogger, createSecurityReporter, warnOfSharedPaths, warnOfSharedStores } from './adapters/reports.js'
import { createResourceIssuer, createResourceKeys } from './adapters/resource-issuer.js'
import { createServiceKey } from './adapters/signer-service-key.js'
import { systemErrorCodes, systemRandom } from './adapters/system.js'
import { RecentEntries } from './caches.js'
import type { DidAuthConfig } from './config/options.js'
import { listConfigWarnings, parseConfig, type Settings } from './config/settings.js'
import { requestDeadline, limitStoreTime } from './current-request.js'
import { DidAuthError } from './errors.js'
import { describeCause } from './flows/describe-cause.js'
import { createServiceQuotas } from './flows/limits.js'
import { listSessions } from './flows/manage-sessions.js'
import type { Parts } from './flows/parts.js'
import './express-types.js'
import { createApprovalGuard, createDidGuard, type DescribeRequest } from './express/guards.js'
import { mountRoutes, type ExpressApp } from './express/mount-routes.js'
import { createErrorAnswerer } from './http/answer-error.js'
import { createCallerFinder } from './http/client-network.js'
import type { GuardOptions, HttpParts } from './http/guard.js'
import { createTokenTransport } from './http/token-transport.js'
import { createLazy } from './lazy.js'
import type { AuthenticatedUser } from './ports.js'
import { canonicalDid } from './protocol/did.js'
import type { Session } from './protocol/session.js'
import { memoryStore, memoryStores } from './stores/memory/index.js'
import { systemClock } from './time.js'

/** Lists and ends the sessions of users, for account pages and operators. */
export interface Sessions {
  /** Lists a user's active sessions, the newest first. @throws DidAuthError ERR_STORE */
  list(did: string): Promise<Session[]>
  /**
   * Ends one session of any user; true when it was active. Where a user names the session, look for it in `list(did)`
   * first. Its access token stays valid until its `exp`. @throws DidAuthError ERR_STORE
   */
  revoke(sessionId: string): Promise<boolean>
  /**
   * Ends all sessions of a user and answers how many there were. A login at the same moment may open another one:
   * refuse the user in the business logic first. @throws DidAuthError ERR_STORE: the sessions may have ended or not
   */
  revokeAll(did: string): Promise<number>
}

/** A middleware that protects a route. */
// A RequestHandler would replace the typed path parameters of the handlers after it.
export type Guard = (req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void) => void

/** The middleware that protects a route, and what belongs to it. */
export interface RequireDid extends Guard {
  /**
   * A guard that asks more, or less, of a request.
   * @example
   * app.post('/payments', requireDid.with({ checkSession: true }), pay) // a logged out session cannot pay
   */
  with(options: GuardOptions): Guard
  /**
   * A guard that has the user's wallet sign *this* request: its method, path and query, its body, and a line that tells
   * the user what it does. It reads the body itself, so that it stands before body parsers: behind it `req.body` is
   * parsed JSON, or the bytes of another type. Behind it, `req.auth.approval` is what was signed.
   * @throws DidAuthError ERR_CONFIG without the option `siwe`, whose domains are accepted
   * @example
   * app.post('/transfer', requireDid.approved(({ body }) => `Send ${body.amount} RBTC to ${body.to}`), transfer)
   */
  approved(describe: DescribeRequest): Guard
  /** Lets a request without token pass, with `req.user` undefined. A bad token is still refused. */
  readonly optional: Guard
  /** Resolves when curve, signer and store can work; rejects when one cannot. Requests wait and retry by themselves. */
  readonly ready: Promise<void>
  readonly sessions: Sessions
  /** Closes what setup opened. The application closes a store that it passed in. */
  close(): Promise<void>
}

/**
 * Puts DID login on an Express application: the challenge, sign up, login, refresh and logout routes.
 * The application's other routes do not change: body reader, cookie reading and error handler serve our routes alone. A
 * body that the application's own parser refuses on one of our routes gets our error answer as well, where parser and
 * routes are on the same application or router: Express passes errors to no router below.
 * @param app - an application or router, before or after its own parsers
 * @returns the middleware for protected routes; behind it `req.user.did` is the user
 * @throws DidAuthError ERR_CONFIG, naming every problem at once; TypeError without an application
 * @example
 * const requireDid = setupDidAuth(app, { challengeSecret, serviceUrl, serviceSigner: es256kSigner(privateKey) })
 * app.get('/profile', requireDid, (req, res) => res.json(req.user))
 */
export function setupDidAuth(app: ExpressApp, config: DidAuthConfig): RequireDid {
  if (!isExpressApp(app)) {
    throw new TypeError('setupDidAuth(app, config) needs an application or router of Express as its first argument')
  }
  const settings = parseConfig(config, findLocalKey)
  const { serviceUrl, trustedOrigins, errorFormat } = settings
  const logger = config.logger ?? consoleLogger
  const given = config.clock ?? systemClock
  const clock = { nowSeconds: () => Math.floor(given.nowSeconds()) }
  const storeFor = config.store && limitStoreTime(config.store)
  const store = storeFor?.() ?? memoryStore()
  const environment = {
    hasOwnStore: config.store !== undefined && !memoryStores.has(config.store),
    isProduction: process.env.NODE_ENV === 'production'
  }
  const warnings = [
    ...listConfigWarnings(settings, environment),
    ...warnOfSharedStores(config.store, settings),
    ...warnOfSharedPaths(app, { ...settings.paths })
  ]
  for (const warning of warnings) logger.warn({ event: 'configuration' }, warning)

  const report = createSecurityReporter(clock, logger, config.onSecurityEvent)
  const resolver = createResolver(settings)
  const quotas = createServiceQuotas(clock, settings)
  const loaded = createLazy(() => loadParts(settings, { clock, store, quotas, logger, report }, resolver))
  const http: HttpParts = {
    settings,
    quotas,
    // The waits of one request share one deadline: store, business logic, signers.
    parts: async () => {
      const [parts, deadline] = [await loaded(), requestDeadline()]
      return { ...parts, deadline, store: storeFor?.(deadline) ?? store }
    },
    callerOf: createCallerFinder(trustedOrigins, logger),
    transport: createTokenTransport(settings),
    answerError: createErrorAnswerer({ serviceUrl, errorFormat, logger, report })
  }
  mountRoutes(app, http)
  const { requestAuth: requestAuthPath, auth: authPath } = settings.paths
  rememberService(app, { serviceUrl, requestAuthPath, authPath })

  const ready = loaded().then(async ({ serviceKey, resourceKeys }) => {
    await Promise.all([serviceKey.publicKey(), store.ping(), settings.resources.length > 0 && resourceKeys.publish()])
  })
  // An application that does not await `ready` finds a failure in the answers and in the log.
  ready.catch((error: unknown) => logger.error({ event: 'not-ready', cause: describeCause(error) }, 'not ready yet'))

  // Express passes its own requests to what is typed for those of Node.
  const guard = (options: GuardOptions = {}): Guard => createDidGuard(http, options) as unknown as Guard

  return Object.assign(guard({}), {
    with: guard,
    approved(describe: DescribeRequest) {
      const { siwe } = settings
      if (siwe === undefined) {
        throw new DidAuthError('ERR_CONFIG', { message: 'express-did-auth: requireDid.approved needs the option siwe' })
      }
      if (typeof describe !== 'function') throw new TypeError('requireDid.approved(describe) needs a function')
      return createApprovalGuard(http, siwe, describe) as unknown as Guard
    },
    optional: guard({ optional: true }),
    ready,
    sessions: {
      list: (did: string) => listSessions({ settings, clock, store }, did),
      async revoke(sessionId: string) {
        const wasActive = await store.endSession(serviceUrl, sessionId, 'revoked', clock.nowSeconds())
        if (wasActive) report({ type: 'session-revoked', sessionId })
        return wasActive
      },
      async revokeAll(did: string) {
        const count = await store.revokeSessions(serviceUrl, canonicalDid(did), clock.nowSeconds())
        if (count > 0) report({ type: 'session-revoked', did, count })
        return count
      }
    },
    async close() {
      resolver.close()
      if (config.store === undefined) await store.close()
    }
  })
}

/** Whether a value is an application: a caller without types may pass anything. */
function isExpressApp(value: unknown): boolean {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return false
  return 'use' in value && typeof value.use === 'function'
}

/** Loads the curve, and wires what the flows of all requests work with. */
async function loadParts(
  settings: Settings,
  given: Pick<Parts, 'clock' | 'store' | 'quotas' | 'logger' | 'report'>,
  resolver: ClosableDidResolver
): Promise<Omit<Parts, 'deadline'>> {
  const curve = await loadCurve()
  const { clock, logger, report } = given
  const scheduler = new EventLoopScheduler()
  const verifiedTokens = new RecentEntries<AuthenticatedUser>()
  const onKeyChange = (address: string): void => {
    verifiedTokens.clear()
    report({ type: 'signer-address-changed', address })
  }
  const { serviceSigner, isTrustedIssuer, resolution, contractWallets: contracts, didControl, networks } = settings
  const ownKey = findLocalKey(serviceSigner)
  const serviceDid = settings.serviceDid ?? (ownKey && computeDid(curve, ownKey))
  if (serviceDid === undefined) throw new DidAuthError('ERR_CONFIG')
  const serviceKey = createServiceKey({ curve, logger, onKeyChange }, serviceSigner, serviceDid)
  return {
    ...given,
    settings: Object.freeze({ ...settings, serviceDid }),
    random: systemRandom,
    systemErrorCodes,
    curve,
    tokenCurve: curveWithPreviousKeys(curve, settings.previousServiceDids),
    serviceKey,
    verifiedTokens,
    disclosureRequests: createSignatureCache(settings.challengeWindowSeconds),
    credentialVerifier: createCredentialVerifier({
      curve,
      scheduler,
      issuerKeys: createIssuerKeyCache(clock, resolver, 'assertionMethod'),
      isTrustedIssuer,
      provesByAddress: resolution.kind === 'ethr' && resolution.provesByAddress
    }),
    contractWallets: contracts && createContractWallets(logger, contracts),
    didControllers: didControl === 'document' ? createDocumentControllers(clock, curve, resolver) : undefined,
    resourceKeys: createResourceKeys(settings.resourceKeys),
    resourceIssuer:
      settings.resourceIssuer && createResourceIssuer({ ...settings.resourceIssuer, networks, clock, logger }),
    scheduler
  }
}

/** Creates the resolver of issuers from the settings. */
function createResolver({ resolution }: Settings): ClosableDidResolver {
  if (resolution.kind === 'ethr') return createEthrDidResolver(resolution.networks, resolution.registry)
  const { resolver } = resolution
  // The application closes its own.
  return { resolve: (did, options) => resolver.resolve(did, options), close: () => undefined }
}
