import { es256kSigner, memoryStore, withClient, type Clock, type QuotaStore } from 'express-did-auth'
import { acceptedLoginDomains, MAX_LOGIN_DOMAINS } from 'express-did-auth/protocol'
import { callerFinder, resourceIssuer, serviceQuotas, systemClock } from 'express-did-auth/server-kit'
import { readableOrigins, secureApp, withLastAnswers, type ServerApp, type ServerAppParts } from '../http/create-app.js'
import { challengeSecretOf, maxRequestsOf, trustedIssuerOf } from '../http/did-auth.js'
import { ServerError } from '../http/server-error.js'
import { StartError } from '../config/startup-error.js'
import { ipfsDependency } from '../ipfs/ipfs-node.js'
import { serveDocument } from '../openapi/document.js'
import { startContentWork } from '../process/content-work.js'
import { contentStarter, type Contents } from '../process/start-server.js'
import { diskBound, StoreBound } from '../storage/disk-space.js'
import { storeFailure } from '../storage/storage-error.js'
import { FileRelay } from './file-relay.js'
import { loadServiceKey, RelayAuth } from './relay-auth.js'
import { addRelayRoutes, relayRouteNames } from './routes.js'

/** What the relay is built of. */
export interface RelayParts extends ServerAppParts, Contents {
  clock?: Clock
}

const DEFAULT_TIME_SLOT_SECONDS = 600
/** Share of the store's limit above which removed content is not kept for its readers. */
const NEARLY_FULL = 0.9

/** Starts the relay. @throws StartError */
export const startRelay = contentStarter(relayApp)

/** Builds the relay. Its caller closes stores and node. */
export function relayApp(parts: RelayParts): ServerApp {
  const { env, identity, serviceUrl, store, contents, node, clock = systemClock } = parts
  const signer = es256kSigner(identity.privateKey)
  const app = secureApp(parts, relayRouteNames, [
    { name: 'signer', isNeeded: true, check: () => signer('ready?') },
    ipfsDependency(node)
  ])
  app.use(withClient)

  const key = loadServiceKey(identity.privateKey)
  const secret = challengeSecretOf(env, identity.challengeSecret)
  const timeSlotSeconds = env.TIME_SLOT_IN_SECONDS ?? DEFAULT_TIME_SLOT_SECONDS
  const issuer = trustedIssuerOf(parts)
  const trusted = { audience: serviceUrl, networks: env.NETWORKS, clock, logger: parts.log }
  const auth = new RelayAuth({
    serviceUrl,
    serviceDid: identity.serviceDid,
    loginDomains: loginDomainsOf(parts),
    loginDialects: env.LOGIN_DIALECTS ?? ['login'],
    networks: env.NETWORKS,
    challengeSecret: secret,
    tokenSeconds: env.RELAY_TOKEN_EXPIRATION_TIME_IN_SECONDS,
    maxRequests: maxRequestsOf(env) ?? Infinity,
    hasOpenReads: env.RELAY_OPEN_READS,
    quotas: serviceQuotas({ store: quotasWhileFull(store), clock, serviceUrl, secret, timeSlotSeconds }),
    key,
    signer,
    resourceIssuer: issuer === undefined ? undefined : resourceIssuer({ issuer, ...trusted }),
    store,
    clock
  })
  const collect = (how?: { isFull: boolean }): Promise<void> => contents.collectGarbage(clock.nowSeconds(), how)
  const { pins, repair, bodies, stop } = startContentWork(parts, clock, 'sweep', async (signal) => {
    while (!signal.aborted && (await contents.deleteExpiredFiles(clock.nowSeconds())));
    await collect({ isFull: (await contents.storedBytes()) > NEARLY_FULL * env.RELAY_MAX_STORE_BYTES })
  })
  const relay = new FileRelay({
    store: contents,
    pins,
    repair,
    disk: new StoreBound(diskBound(parts.usedPercent), collect),
    maxMemoryBytes: env.RELAY_MAX_MEMORY_BYTES,
    ttlSeconds: env.RELAY_FILE_TTL_SECONDS,
    maxStoreBytes: env.RELAY_MAX_STORE_BYTES,
    maxBytesPerDid: env.RELAY_MAX_BYTES_PER_DID,
    clock
  })
  app.get('/openapi.json', serveDocument('relay', serviceUrl))
  const callerOf = callerFinder(new Set([...env.TRUSTED_ORIGINS, ...readableOrigins(parts)]), parts.log)
  addRelayRoutes(app, { auth, relay, bodies, callerOf, maxFileBytes: env.RELAY_MAX_FILE_BYTES })
  return { listener: withLastAnswers(app, parts), ready: key.then(() => undefined), close: stop }
}

/** @throws StartError when there are more than the library accepts: each costs a key recovery for a bad signature */
function loginDomainsOf({ serviceUrl, env }: RelayParts): string[] {
  const domains = acceptedLoginDomains(serviceUrl, env.LOGIN_DOMAINS ?? [])
  if (domains.length <= MAX_LOGIN_DOMAINS) return domains
  const given = JSON.stringify(domains)
  throw new StartError(`LOGIN_DOMAINS: received ${given}; give at most ${MAX_LOGIN_DOMAINS} with those of SERVICE_URL`)
}

/** Counts in memory while the disk of the database is full: reads need no disk, and the file store refuses writes. */
function quotasWhileFull(store: QuotaStore): QuotaStore {
  const memory = memoryStore()
  return {
    chargeQuota: (charge) =>
      store.chargeQuota(charge).catch((error: unknown) => {
        const failure = storeFailure(error)
        if (failure instanceof ServerError && failure.code === 'ERR_STORAGE_FULL') return memory.chargeQuota(charge)
        throw error
      })
  }
}
