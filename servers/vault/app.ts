import { es256kSigner, setupDidAuth } from 'express-did-auth'
import { ConcurrencyLimiter, systemClock } from 'express-did-auth/server-kit'
import { secureApp, withLastAnswers, type ServerApp, type ServerAppParts } from '../http/create-app.js'
import { authRoutes, didAuthConfig, didAuthDependencies, sessionPath, trustedIssuerOf } from '../http/did-auth.js'
import { ByteBudget } from '../bodies/limits.js'
import { ipfsDependency } from '../ipfs/ipfs-node.js'
import { serveDocument } from '../openapi/document.js'
import { startContentWork } from '../process/content-work.js'
import { contentStarter, type Contents } from '../process/start-server.js'
import { bytesBound, diskBound, StoreBound, type StoreMeasure } from '../storage/disk-space.js'
import { refuseOddSpellings, vaultRoutes } from './vault-routes.js'

/** What the vault server is built of. */
export type VaultServerParts = ServerAppParts & Contents

/** Lists that are prepared at once: each may be thousands of entries, and the thread answers others too. */
const PREPARING = { maxRunning: 2, maxWaiting: 256, timeoutMilliseconds: 3_500 }
/** Lists and pages of answers that are being sent. */
const MAX_SENT_BYTES = 134_217_728

/** Starts the vault. @throws StartError */
export const startVault = contentStarter(vaultApp)

/** Builds the vault server without listening. Its caller closes stores and node. */
export function vaultApp(parts: VaultServerParts): ServerApp {
  const { env, contents, node } = parts
  const signer = es256kSigner(parts.identity.privateKey)
  const dependencies = [...didAuthDependencies(signer, env.RPC_URL), ipfsDependency(node)]
  const app = secureApp(parts, [...authRoutes, sessionPath, '/.well-known'], dependencies)
  app.use(refuseOddSpellings)
  const issuer = trustedIssuerOf(parts)
  const resourceIssuer = issuer === undefined ? undefined : { issuer }
  const requireDid = setupDidAuth(app, { ...didAuthConfig(parts, signer), sessionPath, resourceIssuer })
  app.get('/openapi.json', serveDocument('vault', parts.serviceUrl))

  const collect = (how?: { isFull: boolean }): Promise<void> => contents.collectGarbage(systemClock.nowSeconds(), how)
  const { pins, repair, bodies, collector, stop } = startContentWork(parts, systemClock, 'collector', () => collect())
  vaultRoutes(app, {
    requireDid,
    pins,
    bodies,
    bounds: boundsOf(parts).map((measure) => new StoreBound(measure, () => collect({ isFull: true }))),
    collectSoon: () => collector.soon(),
    reading: {
      store: contents,
      repair,
      limiter: new ConcurrencyLimiter(PREPARING),
      budget: new ByteBudget({ maxBytes: MAX_SENT_BYTES })
    },
    quota: { maxBytes: env.VAULT_MAX_BYTES_PER_DID, maxEntries: env.VAULT_MAX_ENTRIES_PER_DID },
    maxContentBytes: env.VAULT_MAX_CONTENT_BYTES
  })
  const close = async (): Promise<void> => {
    await stop()
    await requireDid.close()
  }
  return { listener: withLastAnswers(app, parts), ready: requireDid.ready, close }
}

function boundsOf({ env, contents, usedPercent }: VaultServerParts): StoreMeasure[] {
  const { VAULT_MAX_STORE_BYTES: maxBytes } = env
  const disk = diskBound(usedPercent)
  if (maxBytes === undefined) return [disk]
  return [disk, bytesBound(() => contents.storedBytes(), maxBytes)]
}
