import type { IncomingMessage, ServerResponse } from 'node:http'
import { createAssertionSignatures } from './adapters/assertion-signatures.js'
import { createIssuerKeyCache, createDocumentControllers } from './adapters/cached-issuer-keys.js'
import { createContractWallets } from './adapters/contract-wallets.js'
import { createCredentialStatus } from './adapters/credential-status.js'
import { createDeviceSignatures } from './adapters/device-signatures.js'
import { createCredentialVerifier, createIssuerSignatureCheck } from './adapters/credential-verifier.js'
import { loadCurve } from './adapters/curve.js'
import { createEthrDidResolver, type ClosableDidResolver } from './adapters/ethr-did-resolver.js'
import { EventLoopScheduler } from './adapters/event-loop-scheduler.js'
import { createSignatureCache } from './adapters/in-flight-requests.js'
import { rememberService } from './adapters/mounted-services.js'
import { curveWithPreviousKeys } from './adapters/named-keys.js'
import { consoleLogger, createSecurityReporter, warnOfSharedPaths, warnOfSharedStores } from './adapters/reports.js'
import { createResourceIssuer, createResourceKeys } from './adapters/resource-issuer.js'
import { computeDid, createServiceKey, findLocalKey } from './adapters/service-key.js'
import { systemErrorCodes, systemRandom } from './adapters/system.js'
import { RecentEntries } from './caches.js'
import type { DidAuthConfig } from './config/options.js'
import { listConfigWarnings, parseConfig, type Settings } from './config/settings.js'
import { DidAuthError } from './errors.js'
import { describeCause } from './flows/describe-cause.js'
import { computeListUntil, endSession } from './flows/end-session.js'
import { createServiceQuotas } from './flows/limits.js'
import { listSessions } from './flows/manage-sessions.js'
import type { Parts } from './flows/parts.js'
import { EndedSessionLists } from './flows/publish-ended-sessions.js'
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
import { limitStoreTime } from './stores/with-deadline.js'
import { requestDeadline, systemClock, toWholeSeconds } from './time.js'

/** Lists and ends the sessions of users, for account pages and operators. */
export interface Sessions {
  /** Lists a user's active sessions, the newest first. @throws DidAuthError ERR_STORE */
  list(did: string): Promise<Session[]>
  /**
   * Revokes one session of any user. If a user chooses the session, make sure first that `list(did)` contains it. Its
   * access token stays valid until its `exp`.
   * @returns whether the session was active
   * @throws DidAuthError ERR_STORE
   */
  revoke(sessionId: string): Promise<boolean>
  /**
   * Revokes all sessions of a user. A login at the same moment may open another one: refuse the user in the business
   * logic first.
   * @returns number of revoked sessions
   * @throws DidAuthError ERR_STORE: it is unknown whether the sessions were revoked
   */
  revokeAll(did: string): Promise<number>
}

/** A middleware that protects a route. */
// A RequestHandler would replace the typed path parameters of the handlers after it.
export type Guard = (req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void) => void

/** The middleware that protects a route, with variants of it, the session API and the lifecycle. */
export interface RequireDid extends Guard {
  /**
   * Creates a guard with options, such as a check that the session is still active.
   * @example
   * app.post('/payments', requireDid.with({ checkSession: true }), pay) // a logged out session cannot pay
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
  const settings = parseConfig(config, findLocalKey)
  const { serviceUrl, trustedOrigins, errorFormat } = settings
  const logger = config.logger ?? consoleLogger
  const clock = toWholeSeconds(config.clock ?? systemClock)
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
    // Store, business logic and signer share one deadline in each request.
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
  // If the application does not await `ready`, it sees the failure in error answers and in the log.
  ready.catch((error: unknown) => logger.error({ event: 'not-ready', cause: describeCause(error) }, 'not ready yet'))

  const guard = (options: GuardOptions = {}): Guard => {
    const { useCookies, deviceBinding } = settings
    if (options.deviceProof === true && (useCookies || deviceBinding.mode === 'off')) {
      const why = useCookies ? 'pages cannot read the tokens in cookies' : 'deviceBinding is off'
      logger.warn({ event: 'configuration' }, `requireDid.with({ deviceProof: true }) refuses most requests: ${why}`)
    }
    // `Guard` is typed for requests of Node; Express passes its own, which extend them.
    return createDidGuard(http, options) as unknown as Guard
  }

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
        const wasActive = await endSession({ settings, clock, store }, sessionId, 'revoked')
        if (wasActive) report({ type: 'session-revoked', sessionId })
        return wasActive
      },
      async revokeAll(did: string) {
        const now = clock.nowSeconds()
        const listUntil = computeListUntil(settings, now)
        const count = await store.revokeSessions(serviceUrl, canonicalDid(did), now, listUntil)
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

/** Whether a value is an application or router. Callers in JavaScript may pass any value. */
function isExpressApp(value: unknown): boolean {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return false
  return 'use' in value && typeof value.use === 'function'
}

/** Loads the curve and wires the parts that all requests share. */
async function loadParts(
  settings: Settings,
  wiredParts: Pick<Parts, 'clock' | 'store' | 'quotas' | 'logger' | 'report'>,
  resolver: ClosableDidResolver
): Promise<Omit<Parts, 'deadline'>> {
  const curve = await loadCurve()
  const { clock, logger, report } = wiredParts
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
  const isSigned = createIssuerSignatureCheck({
    curve,
    scheduler,
    issuerKeys: createIssuerKeyCache(clock, resolver, 'assertionMethod'),
    provesByAddress: resolution.kind === 'ethr' && resolution.provesByAddress
  })
  const checksStatus = settings.credentialStatus === 'check'
  const serviceKey = createServiceKey({ curve, logger, onKeyChange }, serviceSigner, serviceDid)
  return {
    ...wiredParts,
    settings: Object.freeze({ ...settings, serviceDid }),
    random: systemRandom,
    systemErrorCodes,
    curve,
    tokenCurve: curveWithPreviousKeys(curve, settings.previousServiceDids),
    serviceKey,
    verifiedTokens,
    disclosureRequests: createSignatureCache(settings.challengeWindowSeconds),
    credentialVerifier: createCredentialVerifier({ isSigned, isTrustedIssuer }),
    credentialStatus: checksStatus ? createCredentialStatus(clock, isSigned, settings.serviceUrl) : undefined,
    contractWallets: contracts && createContractWallets(logger, contracts),
    didControllers: didControl === 'document' ? createDocumentControllers(clock, curve, resolver) : undefined,
    verifyDeviceSignature: createDeviceSignatures(),
    verifyMachineSignature: createAssertionSignatures(),
    resourceKeys: createResourceKeys(settings.resourceKeys),
    endedSessionLists: new EndedSessionLists(),
    resourceIssuer:
      settings.resourceIssuer &&
      createResourceIssuer({ ...settings.resourceIssuer, networks, clock, logger, loadCurve }),
    scheduler
  }
}

/** Creates the resolver for DIDs of credential issuers, and of users with `didControl: 'document'`. */
function createResolver({ resolution }: Settings): ClosableDidResolver {
  if (resolution.kind === 'ethr') return createEthrDidResolver(resolution.networks, resolution.registry)
  const { resolver } = resolution
  // The application closes its own resolver.
  return { resolve: (did, options) => resolver.resolve(did, options), close: () => undefined }
}
