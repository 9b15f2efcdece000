import { createHmac } from 'node:crypto'
import { canonicalDid, defaultPaths, describeUserAgent } from 'express-did-auth'
import type { DidAuthConfig, SiweOptions, Store } from 'express-did-auth'
import { isEthrDid, networkOfDid } from 'express-did-auth/protocol'
import { fetchIssuerKeys, isSecureUrl, parseHttpUrl } from 'express-did-auth/server-kit'
import type { Logger } from 'pino'
import type { ServerAppParts } from './create-app.js'
import { fetchChainId, type Dependency } from '../observability/health-checks.js'
import { optionVariables } from '../config/env-schema.js'
import type { ServerEnv } from '../config/read-env.js'
import { limitMilliseconds } from '../config/time-limits.js'

/** Paths of routes that are off in the library by default. The routes of EIP-4361 are below `siwePath`. */
export const optionalPaths = { sessionPath: '/session', sessionsPath: '/sessions', siwePath: '/siwe' }

/** Time for which `/ready` reuses the issuer's keys. It is the library's minimum interval between two fetches. */
const FRESH_KEYS_MILLISECONDS = limitMilliseconds.keyPause

const isHttpUrl = (url: string): boolean => parseHttpUrl(url) !== undefined

type AppParts<K extends keyof ServerAppParts> = Pick<ServerAppParts, 'env' | K>

/** Routes of the library that accept POST, as log and metrics name them. */
export const authRoutes: readonly string[] = Object.values(defaultPaths)

/** Converts an environment to the library's options. For absent variables, the library's defaults apply. */
export function createDidAuthConfig(
  { env, identity, serviceUrl, log, store, metrics }: AppParts<'identity' | 'serviceUrl' | 'log' | 'store' | 'metrics'>,
  serviceSigner: DidAuthConfig['serviceSigner']
): DidAuthConfig {
  // Unless RPC_URL is set, the library has nodes only for these networks, and refuses any other name.
  const hasDefaultNode = env.NETWORK_NAME === 'rsk' || env.NETWORK_NAME === 'rsk:testnet'
  return {
    ...readOptions(env),
    challengeSecret: deriveChallengeSecret(env, identity.challengeSecret),
    serviceUrl,
    serviceDid: identity.serviceDid,
    previousServiceDids: identity.previousServiceDids,
    serviceSigner,
    maxRequestsPerTimeSlot: getMaxRequests(env),
    networkName: env.RPC_URL !== undefined || hasDefaultNode ? env.NETWORK_NAME : undefined,
    store,
    // CORS_ORIGINS is not included: it only lets pages read responses. Trusted origins may log users in by EIP-4361.
    trustedOrigins: env.TRUSTED_ORIGINS,
    // Device proofs name an origin of the service.
    deviceBinding: env.DEVICE_BINDING ?? (isHttpUrl(serviceUrl) || env.TRUSTED_ORIGINS.length > 0 ? 'accepted' : 'off'),
    discovery: true,
    describeSession: ({ headers }) => describeUserAgent(headers['user-agent']),
    ...(metrics && { onSecurityEvent: metrics.createEventCounter(env.name) }),
    logger: createLibraryLogger(log)
  }
}

/** Returns the options that variables set as they are. `sets` has checked that their types are equal. */
function readOptions(env: ServerEnv): Partial<DidAuthConfig> {
  return Object.fromEntries(optionVariables.map(({ variable, option }) => [option, env[variable]]))
}

/**
 * Creates the logger of the library. It drops the library's warning about a `serviceUrl` without a scheme. The server
 * logs its own warning at the start, which names the variable that the operator has to change.
 */
function createLibraryLogger(log: Logger): NonNullable<DidAuthConfig['logger']> {
  const warn = (fields: Record<string, unknown>, message: string): void => {
    if (!/^serviceUrl ".*" has no scheme:/s.test(message)) log.warn(fields, message)
  }
  return { debug: log.debug.bind(log), info: log.info.bind(log), warn, error: log.error.bind(log) }
}

/**
 * Returns the options of EIP-4361; undefined if it is off. By default it is on if the service's URL or LOGIN_DOMAINS
 * contains a host, which the messages have to name. The DIDs of these users have the network of the service's DID, or
 * NETWORK_NAME if that DID is not a did:ethr. If NETWORKS excludes this network, they have the first of NETWORKS.
 */
export function createSiweOptions({
  env,
  identity,
  serviceUrl
}: AppParts<'identity' | 'serviceUrl'>): SiweOptions | undefined {
  const hasHost = isHttpUrl(serviceUrl) || env.LOGIN_DOMAINS?.some((domain) => !domain.includes('/')) === true
  if (!(env.SIWE ?? hasHost)) return undefined
  const { NETWORKS: accepted, NETWORK_NAME: configuredNetwork = 'rsk' } = env
  const network = networkOfDid(identity.serviceDid) ?? configuredNetwork
  const isAccepted = accepted?.some((name) => name.toLowerCase() === network.toLowerCase()) ?? true
  return { path: optionalPaths.siwePath, network: isAccepted ? network : accepted?.[0] }
}

/**
 * Returns the options that let users get tokens for other services: for RESOURCES, and for relay and vault of this
 * process. Returns no options if there is no such service, or no key for the tokens.
 */
export function createResourceOptions({
  env,
  identity,
  serviceUrls
}: AppParts<'identity' | 'serviceUrls'>): Partial<DidAuthConfig> {
  const localServices = [serviceUrls?.get('relay'), serviceUrls?.get('vault')].filter(isSecureUrl)
  const resources = [...new Set([...env.RESOURCES, ...localServices])]
  const { resourceKeys = [] } = identity
  return resources.length > 0 && resourceKeys.length > 0 ? { resources, resourceKeys } : {}
}

/** Returns the options that let machines get tokens: those of MACHINE_DIDS, or any. None without MACHINE_LOGIN. */
export function createMachineOptions({
  MACHINE_LOGIN: machineLogin,
  MACHINE_DIDS: dids
}: Pick<ServerEnv, 'MACHINE_LOGIN' | 'MACHINE_DIDS'>): Partial<DidAuthConfig> {
  if (!machineLogin) return {}
  const accepted = dids && new Set(dids.map(canonicalDid))
  return {
    machineLogin,
    // Users need no entry in the list.
    authenticationBusinessLogic: (_did, { canonicalDid: did, machine }) =>
      machine !== true || accepted === undefined || accepted.has(did)
  }
}

/**
 * Finds the issuer whose tokens are accepted: TRUSTED_ISSUER, or the auth server of this process. The keys of that auth
 * server are not fetched: on this machine, its public name may lead to another process, or may not resolve at all. Its
 * list of ended sessions is read from the address at which it listens.
 */
export function findTrustedIssuer({
  env,
  identity,
  serviceUrls,
  listenUrls,
  store
}: AppParts<'identity' | 'serviceUrls' | 'listenUrls' | 'store'>): DidAuthConfig['resourceIssuer'] {
  const localAuthUrl = serviceUrls?.get('auth')
  const { resourceKeys: keys = [] } = identity
  // The local auth server issues such tokens only if it has a key that all its instances share.
  const issuer = env.TRUSTED_ISSUER ?? (keys.length > 0 && isSecureUrl(localAuthUrl) ? localAuthUrl : undefined)
  if (issuer === undefined) return undefined
  const whenStale = env.ENDED_SESSIONS_WHEN_STALE
  if (issuer !== localAuthUrl || keys.length === 0) return { issuer, endedSessions: { whenStale } }
  const { serviceDid } = identity
  // Auth has a store of the same kind, which needs a list. The reader knows keys of DIDs with an address only.
  const isPublished = hasEndedSessionList(env, store) && isEthrDid(serviceDid)
  if (!isPublished) return { issuer, keys }
  // A server that listens on all addresses is reached on loopback. At any other address, its public name is used.
  const listenUrl = listenUrls?.get('auth')?.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')
  const url = `${isSecureUrl(listenUrl) ? listenUrl : issuer.replace(/\/$/, '')}/.well-known/ended-sessions`
  return { issuer, keys, endedSessions: { url, serviceDid, whenStale } }
}

/** Whether an auth server publishes the list of ended sessions. A store on a cluster of Redis has none. */
export function hasEndedSessionList(
  { ENDED_SESSIONS: isOn }: Pick<ServerEnv, 'ENDED_SESSIONS'>,
  { listEndedSessions }: Pick<Store, 'listEndedSessions'>
): boolean {
  return isOn && listEndedSessions !== undefined
}

/** Returns the dependency on a trusted issuer, if its keys have to be fetched. */
export function createIssuerDependencies(trusted: DidAuthConfig['resourceIssuer']): Dependency[] {
  if (trusted === undefined || trusted.keys !== undefined) return []
  const check = (): Promise<unknown> => fetchIssuerKeys(trusted.issuer)
  return [{ name: 'issuer', isNeeded: false, check, freshMilliseconds: FRESH_KEYS_MILLISECONDS, showsReason: true }]
}

/** Derives a challenge secret for each server, so that other servers with the same identity refuse its challenges. */
export function deriveChallengeSecret({ name }: Pick<ServerEnv, 'name'>, challengeSecret: string): string {
  return name === 'auth' ? challengeSecret : createHmac('sha256', challengeSecret).update(name).digest('hex')
}

/** Returns the rate limit of a server, which is higher for relay and vault. Undefined: the library's default. */
export function getMaxRequests(env: Pick<ServerEnv, 'name' | 'MAX_REQUESTS_PER_TIME_SLOT'>): number | undefined {
  return env.MAX_REQUESTS_PER_TIME_SLOT ?? (env.name === 'auth' ? undefined : 1_000)
}

/** Creates the dependencies of DID login except the store. @param rpcUrl - node that resolves DIDs, if configured */
export function createDidAuthDependencies(signer: DidAuthConfig['serviceSigner'], rpcUrl?: string): Dependency[] {
  // A signature of any text shows that the signer works.
  const signerDependency = { name: 'signer', isNeeded: true, check: () => signer('ready?') }
  if (rpcUrl === undefined) return [signerDependency]
  return [signerDependency, { name: 'rpc', isNeeded: false, check: (signal) => fetchChainId(rpcUrl, signal) }]
}
