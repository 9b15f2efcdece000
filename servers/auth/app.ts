import type { RequestListener } from 'node:http'
import { es256kSigner, setupDidAuth, type DidAuthConfig, type Store } from 'express-did-auth'
import type { Logger } from 'pino'
import { lastErrors, notFound, requestListener, serverApp } from '../shared/http-defaults.js'
import type { Identity } from '../shared/identity.js'
import { logRequest, watchRequests } from '../shared/json-log.js'
import type { Metrics } from '../shared/metrics.js'
import { checkRpc, health, readiness, type Dependency } from '../shared/readiness.js'
import type { ServerEnv } from '../shared/read-env.js'

/** What the auth server is built of. */
export interface AuthServerParts {
  env: ServerEnv
  identity: Identity
  serviceUrl: string
  store: Store
  log: Logger
  metrics?: Metrics | undefined
}

/** The reference auth server without its socket. */
export interface AuthServer {
  listener: RequestListener
  /** As that of the middleware. */
  ready: Promise<void>
  /** Lets go of what it opened itself, not of the store. */
  close(): Promise<void>
}

/** Routes by the name that log and metrics give them. */
const ROUTES = [
  '/health',
  '/ready',
  '/me',
  '/request-signup',
  '/signup',
  '/request-auth',
  '/auth',
  '/refresh-token',
  '/logout'
]

/** Builds the reference auth server. */
export function authApp(parts: AuthServerParts): AuthServer {
  const { env, log, store, metrics } = parts
  const signer = es256kSigner(parts.identity.privateKey)
  const app = serverApp(env)
  app.use(
    watchRequests(ROUTES, (ended) => {
      logRequest(log, ended)
      metrics?.count(env.name, ended)
    })
  )

  const { RPC_URL: rpcUrl } = env
  const dependencies: Dependency[] = [
    { name: 'store', isNeeded: true, check: () => store.ping() },
    { name: 'signer', isNeeded: true, check: () => signer('ready?') }
  ]
  if (rpcUrl !== undefined) {
    dependencies.push({ name: 'rpc', isNeeded: false, check: (signal) => checkRpc(rpcUrl, signal) })
  }
  app.get('/health', health)
  app.get('/ready', readiness(dependencies))

  const requireDid = setupDidAuth(app, configOf(parts, signer))
  app.get('/me', requireDid, (req, res) => {
    res.set('Cache-Control', 'no-store').json({ did: req.user?.did })
  })

  app.use(notFound)
  app.use(lastErrors(log))
  return { listener: requestListener(app), ready: requireDid.ready, close: () => requireDid.close() }
}

/** The environment's words in the configuration's. What is absent is undefined, so that the library's defaults hold. */
function configOf(parts: AuthServerParts, serviceSigner: DidAuthConfig['serviceSigner']): DidAuthConfig {
  const { env, identity } = parts
  const isKnownWithoutRpc = env.NETWORK_NAME === 'rsk' || env.NETWORK_NAME === 'rsk:testnet'
  return {
    challengeSecret: identity.challengeSecret,
    serviceUrl: parts.serviceUrl,
    serviceDid: identity.serviceDid,
    serviceSigner,
    useCookies: env.USE_COOKIES,
    challengeExpirationTimeInSeconds: env.CHALLENGE_EXPIRATION_TIME_IN_SECONDS,
    maxRequestsPerTimeSlot: env.MAX_REQUESTS_PER_TIME_SLOT,
    timeSlotInSeconds: env.TIME_SLOT_IN_SECONDS,
    userSessionDurationInHours: env.USER_SESSION_DURATION_IN_HOURS,
    accessTokenExpirationTimeInSeconds: env.ACCESS_TOKEN_EXPIRATION_TIME_IN_SECONDS,
    rpcUrl: env.RPC_URL,
    networkName: env.RPC_URL !== undefined || isKnownWithoutRpc ? env.NETWORK_NAME : undefined,
    registry: env.REGISTRY,
    store: parts.store,
    replayProtection: env.REPLAY_PROTECTION,
    refreshReuseGraceSeconds: env.REFRESH_REUSE_GRACE_SECONDS,
    trustedOrigins: env.TRUSTED_ORIGINS,
    logger: parts.log
  }
}
