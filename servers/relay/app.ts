import { es256kSigner, withClient, type Clock } from 'express-did-auth'
import { acceptedLoginDomains, MAX_LOGIN_DOMAINS } from 'express-did-auth/protocol'
import { appShell, sealed, type ServerApp, type ShellParts } from '../http/create-app.js'
import { challengeSecretOf, maxRequestsOf } from '../http/did-auth.js'
import { BodyReader } from '../http/read-body.js'
import { errorSender } from '../http/server-error.js'
import { StartError } from '../config/startup-error.js'
import { ContentRepair } from '../ipfs/content-repair.js'
import { ipfsDependency, type IpfsNode } from '../ipfs/ipfs-node.js'
import { PinWorker } from '../ipfs/pin-worker.js'
import { describeError } from '../observability/error-fields.js'
import { serveDocument } from '../openapi/document.js'
import { repeatWork } from '../process/repeat-work.js'
import type { ContentMaintenance, ContentReads, FileStore } from '../storage/content-store.js'
import { diskBound, StoreBound, type UsedPercent } from '../storage/disk-space.js'
import type { Spool } from '../storage/files/spool.js'
import { LeafHasher } from '../storage/unixfs-blocks.js'
import type { PinLedger } from '../storage/pin-ledger.js'
import { FileCache } from './file-cache.js'
import { FileRelay } from './file-relay.js'
import { RelayAuth } from './relay-auth.js'
import { addRelayRoutes, relayRouteNames } from './routes.js'
import { loadServiceKey } from './relay-credentials.js'

/** What the relay is built of. */
export interface RelayParts extends ShellParts {
  contents: FileStore & ContentReads & ContentMaintenance
  ledger: PinLedger
  /** Undefined: none is configured. */
  node: IpfsNode | undefined
  /** Where bodies lie while they arrive. */
  spool: Spool
  usedPercent: UsedPercent
  clock?: Clock
}

const DEFAULT_TIME_SLOT_SECONDS = 600
/** Of the bound of the store; above it, what is removed is not kept for its readers. */
const NEARLY_FULL = 0.9
/** Of answers from memory that are being sent. */
const MAX_SENT_BYTES = 33_554_432

const systemClock: Clock = { nowSeconds: () => Math.floor(Date.now() / 1000) }

/** Builds the relay. Its caller closes stores and node. */
export function relayApp(parts: RelayParts): ServerApp {
  const { env, identity, serviceUrl, log, metrics, store, contents, ledger, node, spool, clock = systemClock } = parts
  const signer = es256kSigner(identity.privateKey)
  const app = appShell(parts, relayRouteNames, [
    { name: 'signer', isNeeded: true, check: () => signer('ready?') },
    ipfsDependency(node)
  ])
  app.use(withClient)

  const key = loadServiceKey(identity.privateKey)
  const auth = new RelayAuth({
    serviceUrl,
    serviceDid: identity.serviceDid,
    loginDomains: loginDomainsOf(parts),
    loginDialects: env.LOGIN_DIALECTS ?? ['login'],
    networks: env.NETWORKS,
    challengeSecret: challengeSecretOf(env, identity.challengeSecret),
    tokenSeconds: env.RELAY_TOKEN_EXPIRATION_TIME_IN_SECONDS,
    maxRequests: maxRequestsOf(env) ?? Infinity,
    timeSlotSeconds: env.TIME_SLOT_IN_SECONDS ?? DEFAULT_TIME_SLOT_SECONDS,
    key,
    signer,
    store,
    clock
  })
  const pins = node && new PinWorker({ ledger, store: contents, node, log, nowSeconds: () => clock.nowSeconds() })
  const cache = new FileCache(env.RELAY_MAX_MEMORY_BYTES, MAX_SENT_BYTES)
  const relay = new FileRelay({
    store: contents,
    pins,
    repair: new ContentRepair({ store: contents, node, log }),
    disk: new StoreBound(diskBound(parts.usedPercent), () => contents.collectGarbage(clock.nowSeconds())),
    cache,
    ttlSeconds: env.RELAY_FILE_TTL_SECONDS,
    maxStoreBytes: env.RELAY_MAX_STORE_BYTES,
    maxBytesPerDid: env.RELAY_MAX_BYTES_PER_DID,
    clock
  })
  const sweep = repeatWork(
    async (signal) => {
      while (!signal.aborted && (await contents.deleteExpiredFiles(clock.nowSeconds())));
      const isFull = (await contents.storedBytes()) > NEARLY_FULL * env.RELAY_MAX_STORE_BYTES
      await contents.collectGarbage(clock.nowSeconds(), { isFull })
      metrics?.succeeded('relay', 'sweep')
    },
    (error) => {
      log.warn({ event: 'sweep-failed', ...describeError(error) }, 'expired files could not be deleted')
    }
  )
  pins?.start()

  const bodies = new BodyReader({ spool, newHasher: () => new LeafHasher() })
  const sendError = errorSender({ serviceUrl, errorFormat: env.ERROR_FORMAT }, log)
  app.get('/openapi.json', serveDocument('relay', serviceUrl))
  addRelayRoutes(app, { auth, relay, cache, bodies, maxFileBytes: env.RELAY_MAX_FILE_BYTES, sendError })
  return {
    listener: sealed(app, sendError),
    ready: key.then(() => undefined),
    close: async () => {
      await Promise.all([sweep.stop(), pins?.stop()])
    }
  }
}

/** @throws StartError when there are more than the library accepts: each costs a key recovery for every bad signature */
function loginDomainsOf({ serviceUrl, env }: RelayParts): string[] {
  const domains = acceptedLoginDomains(serviceUrl, env.LOGIN_DOMAINS ?? [])
  if (domains.length <= MAX_LOGIN_DOMAINS) return domains
  const given = JSON.stringify(domains)
  throw new StartError(`LOGIN_DOMAINS: received ${given}; give at most ${MAX_LOGIN_DOMAINS} with those of SERVICE_URL`)
}
