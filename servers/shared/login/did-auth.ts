import { createHmac } from 'node:crypto'
import type { DidAuthConfig, Store } from 'express-did-auth'
import type { ShellParts } from '../http/app-shell.js'
import { checkRpc, type Dependency } from '../watch/readiness.js'
import type { ServerEnv } from '../environment/read-env.js'

/** The environment's words in the library's. What is absent is undefined, so that the library's defaults hold. */
export function didAuthConfig(
  { env, identity, serviceUrl, log }: Omit<ShellParts, 'metrics'>,
  store: Store,
  serviceSigner: DidAuthConfig['serviceSigner']
): DidAuthConfig {
  const isKnownWithoutRpc = env.NETWORK_NAME === 'rsk' || env.NETWORK_NAME === 'rsk:testnet'
  return {
    challengeSecret: challengeSecretOf(env, identity.challengeSecret),
    serviceUrl,
    serviceDid: identity.serviceDid,
    serviceSigner,
    useCookies: env.USE_COOKIES,
    challengeExpirationTimeInSeconds: env.CHALLENGE_EXPIRATION_TIME_IN_SECONDS,
    maxRequestsPerTimeSlot: maxRequestsOf(env),
    timeSlotInSeconds: env.TIME_SLOT_IN_SECONDS,
    userSessionDurationInHours: env.USER_SESSION_DURATION_IN_HOURS,
    accessTokenExpirationTimeInSeconds: env.ACCESS_TOKEN_EXPIRATION_TIME_IN_SECONDS,
    rpcUrl: env.RPC_URL,
    networkName: env.RPC_URL !== undefined || isKnownWithoutRpc ? env.NETWORK_NAME : undefined,
    registry: env.REGISTRY,
    store,
    replayProtection: env.REPLAY_PROTECTION,
    refreshReuseGraceSeconds: env.REFRESH_REUSE_GRACE_SECONDS,
    trustedOrigins: env.TRUSTED_ORIGINS,
    logger: log
  }
}

/** A secret of each server's own, so that what is signed for one is nothing at another with the same identity. */
export function challengeSecretOf({ name }: Pick<ServerEnv, 'name'>, challengeSecret: string): string {
  return name === 'auth' ? challengeSecret : createHmac('sha256', challengeSecret).update(name).digest('hex')
}

/** Whoever keeps entries or relays files asks more often than whoever logs in. Undefined: as the library says. */
export function maxRequestsOf(env: Pick<ServerEnv, 'name' | 'MAX_REQUESTS_PER_TIME_SLOT'>): number | undefined {
  return env.MAX_REQUESTS_PER_TIME_SLOT ?? (env.name === 'auth' ? undefined : 1_000)
}

/** What DID login depends on. */
export function didAuthDependencies(
  { RPC_URL: rpcUrl }: Pick<ServerEnv, 'RPC_URL'>,
  store: Store,
  signer: DidAuthConfig['serviceSigner']
): Dependency[] {
  const own = [
    { name: 'store', isNeeded: true, check: () => store.ping() },
    { name: 'signer', isNeeded: true, check: () => signer('ready?') }
  ]
  if (rpcUrl === undefined) return own
  return [...own, { name: 'rpc', isNeeded: false, check: (signal) => checkRpc(rpcUrl, signal) }]
}
