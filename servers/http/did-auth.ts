import { createHmac } from 'node:crypto'
import { defaultPaths, type DidAuthConfig, type SiweOptions } from 'express-did-auth'
import { networkOfDid } from 'express-did-auth/protocol'
import { fetchIssuerKeys, isSecureUrl } from 'express-did-auth/server-kit'
import type { ServerAppParts } from './create-app.js'
import { askChainId, type Dependency } from '../observability/health-checks.js'
import type { ServerEnv } from '../config/read-env.js'

/** Paths of routes that the library has off by default; those of EIP-4361 are below `siwePath`. */
export const optionalPaths = { sessionPath: '/session', sessionsPath: '/sessions', siwePath: '/siwe' }

/** How long `/ready` reuses an answer with keys: as long as tokens wait between two fetches. */
const FRESH_KEYS_MILLISECONDS = 30_000

type AppParts<K extends keyof ServerAppParts> = Pick<ServerAppParts, 'env' | K>

/** Routes of the library that accept POST, by the names that log and metrics give them. */
export const authRoutes: readonly string[] = Object.values(defaultPaths)

/** The options of the library for an environment. Absent variables are undefined: the library's defaults apply. */
export function createDidAuthConfig(
  { env, identity, serviceUrl, log, store }: AppParts<'identity' | 'serviceUrl' | 'log' | 'store'>,
  serviceSigner: DidAuthConfig['serviceSigner']
): DidAuthConfig {
  const isKnownWithoutRpc = env.NETWORK_NAME === 'rsk' || env.NETWORK_NAME === 'rsk:testnet'
  return {
    challengeSecret: deriveChallengeSecret(env, identity.challengeSecret),
    serviceUrl,
    serviceDid: identity.serviceDid,
    previousServiceDids: identity.previousServiceDids,
    serviceSigner,
    useCookies: env.USE_COOKIES,
    challengeExpirationTimeInSeconds: env.CHALLENGE_EXPIRATION_TIME_IN_SECONDS,
    maxRequestsPerTimeSlot: getMaxRequests(env),
    timeSlotInSeconds: env.TIME_SLOT_IN_SECONDS,
    userSessionDurationInHours: env.USER_SESSION_DURATION_IN_HOURS,
    accessTokenExpirationTimeInSeconds: env.ACCESS_TOKEN_EXPIRATION_TIME_IN_SECONDS,
    rpcUrl: env.RPC_URL,
    networkName: env.RPC_URL !== undefined || isKnownWithoutRpc ? env.NETWORK_NAME : undefined,
    registry: env.REGISTRY,
    store,
    replayProtection: env.REPLAY_PROTECTION,
    refreshReuseGraceSeconds: env.REFRESH_REUSE_GRACE_SECONDS,
    loginDomains: env.LOGIN_DOMAINS,
    loginDialects: env.LOGIN_DIALECTS,
    networks: env.NETWORKS,
    cookiePrefix: env.COOKIE_PREFIX,
    absoluteSessionDurationInHours: env.ABSOLUTE_SESSION_DURATION_IN_HOURS,
    errorFormat: env.ERROR_FORMAT,
    // Not CORS_ORIGINS: pages that may read responses are not necessarily sites whose EIP-4361 messages may log in.
    trustedOrigins: env.TRUSTED_ORIGINS,
    discovery: true,
    logger: log
  }
}

/** EIP-4361, on where a page's host is known, for users of the service's own network, or of the first accepted one. */
export function createSiweOptions({
  env,
  identity,
  serviceUrl
}: AppParts<'identity' | 'serviceUrl'>): SiweOptions | undefined {
  const hasHost = /^https?:/i.test(serviceUrl) || env.LOGIN_DOMAINS?.some((domain) => !domain.includes('/')) === true
  if (!(env.SIWE ?? hasHost)) return undefined
  const { NETWORKS: accepted, NETWORK_NAME: named = 'rsk' } = env
  const own = networkOfDid(identity.serviceDid) ?? named
  const isAccepted = accepted?.some((name) => name.toLowerCase() === own.toLowerCase()) ?? true
  return { path: optionalPaths.siwePath, network: isAccepted ? own : accepted?.[0] }
}

/** Tokens for other services: those of RESOURCES, and relay and vault if they run in this process. */
export function createResourceOptions({
  env,
  identity,
  serviceUrls
}: AppParts<'identity' | 'serviceUrls'>): Partial<DidAuthConfig> {
  const beside = [serviceUrls?.get('relay'), serviceUrls?.get('vault')].filter(isSecureUrl)
  const resources = [...new Set([...env.RESOURCES, ...beside])]
  const { resourceKeys = [] } = identity
  return resources.length > 0 && resourceKeys.length > 0 ? { resources, resourceKeys } : {}
}

/**
 * Finds the issuer whose tokens are accepted: TRUSTED_ISSUER, or the auth server of this process. Keys of the latter
 * are not fetched. Its public name may belong to another process on this machine, or resolve on other machines only.
 */
export function findTrustedIssuer({
  env,
  identity,
  serviceUrls
}: AppParts<'identity' | 'serviceUrls'>): DidAuthConfig['resourceIssuer'] {
  const ownAuth = serviceUrls?.get('auth')
  const { resourceKeys: keys = [] } = identity
  // The auth server issues tokens only if it has a key that its instances share.
  const issuer = env.TRUSTED_ISSUER ?? (keys.length > 0 && isSecureUrl(ownAuth) ? ownAuth : undefined)
  if (issuer === undefined) return undefined
  return issuer === ownAuth && keys.length > 0 ? { issuer, keys } : { issuer }
}

/** Returns the dependency on a trusted issuer whose keys are fetched; empty if there is none. */
export function issuerDependency(trusted: DidAuthConfig['resourceIssuer']): Dependency[] {
  if (trusted === undefined || trusted.keys !== undefined) return []
  const check = (): Promise<unknown> => fetchIssuerKeys(trusted.issuer)
  return [{ name: 'issuer', isNeeded: false, check, freshMilliseconds: FRESH_KEYS_MILLISECONDS, showsReason: true }]
}

/** The challenge secret of one server, so that a signature for one is invalid at another with the same identity. */
export function deriveChallengeSecret({ name }: Pick<ServerEnv, 'name'>, challengeSecret: string): string {
  return name === 'auth' ? challengeSecret : createHmac('sha256', challengeSecret).update(name).digest('hex')
}

/** Returns the quota of requests: higher for relay and vault than for auth. Undefined: the library's default. */
export function getMaxRequests(env: Pick<ServerEnv, 'name' | 'MAX_REQUESTS_PER_TIME_SLOT'>): number | undefined {
  return env.MAX_REQUESTS_PER_TIME_SLOT ?? (env.name === 'auth' ? undefined : 1_000)
}

/** Creates the dependencies of DID login except its store. @param rpcUrl - URL of a node that resolves DIDs, if any */
export function createDidAuthDependencies(signer: DidAuthConfig['serviceSigner'], rpcUrl?: string): Dependency[] {
  const own = { name: 'signer', isNeeded: true, check: () => signer('ready?') }
  if (rpcUrl === undefined) return [own]
  return [own, { name: 'rpc', isNeeded: false, check: (signal) => askChainId(rpcUrl, signal) }]
}
