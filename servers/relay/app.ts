import { es256kSigner, withClient, type Clock } from 'express-did-auth'
import { callerFinder, systemClock } from 'express-did-auth/server-kit'
import { readableOrigins, secureApp, withLastAnswers, type ServerApp, type ServerAppParts } from '../http/create-app.js'
import { didAuthDependencies } from '../http/did-auth.js'
import { ipfsDependency } from '../ipfs/ipfs-node.js'
import { serveDocument } from '../openapi/document.js'
import { startContentWork } from '../process/content-work.js'
import { contentStarter, type Contents } from '../process/start-server.js'
import { diskBound, StoreBound } from '../storage/disk-space.js'
import { FileRelay } from './file-relay.js'
import { loadServiceKey, relayAuth } from './relay-auth.js'
import { addRelayRoutes, relayRouteNames } from './routes.js'

/** What the relay is built of. */
export interface RelayParts extends ServerAppParts, Contents {
  clock?: Clock
}

/** Share of the store's limit above which removed content is not kept for its readers. */
const NEARLY_FULL = 0.9

/** Starts the relay. @throws StartError */
export const startRelay = contentStarter(relayApp)

/** Builds the relay. Its caller closes stores and node. */
export function relayApp(parts: RelayParts): ServerApp {
  const { env, identity, serviceUrl, contents, node, clock = systemClock } = parts
  const signer = es256kSigner(identity.privateKey)
  // It resolves no DID, so that no RPC node is asked.
  const app = secureApp(parts, relayRouteNames, [...didAuthDependencies(signer), ipfsDependency(node)])
  app.use(withClient)

  const key = loadServiceKey(identity.privateKey)
  const auth = relayAuth({ ...parts, key, signer, clock })
  const collect = (how?: { isFull: boolean }): Promise<void> => contents.collectGarbage(clock.nowSeconds(), how)
  const { pins, repair, bodies, stop } = startContentWork(parts, clock, 'sweep', async (signal) => {
    while (!signal.aborted && (await contents.deleteExpiredFiles(clock.nowSeconds())));
    await collect({ isFull: (await contents.storedBytes()) > NEARLY_FULL * env.RELAY_MAX_STORE_BYTES })
  })
  const disk = new StoreBound(diskBound(parts.usedPercent), collect)
  const relay = new FileRelay({ store: contents, pins, repair, disk, env, clock })
  app.get('/openapi.json', serveDocument('relay', serviceUrl))
  const callerOf = callerFinder(new Set([...env.TRUSTED_ORIGINS, ...readableOrigins(parts)]), parts.log)
  addRelayRoutes(app, { auth, relay, bodies, callerOf, maxFileBytes: env.RELAY_MAX_FILE_BYTES })
  return { listener: withLastAnswers(app, parts), ready: key.then(() => undefined), close: stop }
}
