import { es256kSigner, setupDidAuth } from 'express-did-auth'
import { systemClock } from 'express-did-auth/server-kit'
import { secureApp, withLastAnswers, type ServerApp, type ServerAppParts } from '../http/create-app.js'
import { authRoutes, didAuthConfig, didAuthDependencies, sessionPath } from '../http/did-auth.js'
import { ByteBudget, ConcurrencyLimiter } from '../http/limits.js'
import { BodyReader } from '../http/read-body.js'
import { serverErrorSender } from '../http/server-error.js'
import { ContentRepair } from '../ipfs/content-repair.js'
import { ipfsDependency } from '../ipfs/ipfs-node.js'
import { PinWorker } from '../ipfs/pin-worker.js'
import { describeError } from '../observability/error-fields.js'
import { serveDocument } from '../openapi/document.js'
import { repeatWork } from '../process/repeat-work.js'
import type { Contents } from '../process/start-server.js'
import { bytesBound, diskBound, StoreBound, type StoreMeasure } from '../storage/disk-space.js'
import { LeafHasher } from '../storage/unixfs-blocks.js'
import { refuseOddSpellings, vaultRoutes } from './vault-routes.js'

/** What the vault server is built of. */
export type VaultServerParts = ServerAppParts & Contents

/** Lists that are prepared at once: each may be thousands of entries, and the thread of the database has others to answer. */
const PREPARING = { maxRunning: 2, maxWaiting: 256, timeoutMilliseconds: 3_500 }
/** Lists and pages of answers that are being sent. */
const MAX_SENT_BYTES = 134_217_728

/** Builds the vault server without listening. Its caller closes stores and node. */
export function vaultApp(parts: VaultServerParts): ServerApp {
  const { env, contents, node, spool, log, metrics } = parts
  const signer = es256kSigner(parts.identity.privateKey)
  const app = secureApp(
    parts,
    [...authRoutes, sessionPath],
    [...didAuthDependencies(env, signer), ipfsDependency(node)]
  )
  const sendError = serverErrorSender(parts)
  app.use(refuseOddSpellings(sendError))
  const requireDid = setupDidAuth(app, { ...didAuthConfig(parts, signer), sessionPath })

  const quota = { maxBytes: env.VAULT_MAX_BYTES_PER_DID, maxEntries: env.VAULT_MAX_ENTRIES_PER_DID }
  const pins = node && new PinWorker({ ledger: contents, store: contents, node, log })
  app.get('/openapi.json', serveDocument('vault', parts.serviceUrl))
  const collect = (how?: { isFull: boolean }): Promise<void> => contents.collectGarbage(systemClock.nowSeconds(), how)
  const collector = repeatWork(
    async () => {
      await collect()
      metrics?.succeeded('vault', 'collector')
    },
    (error) => {
      log.warn({ event: 'sweep-failed', ...describeError(error) }, 'unused objects could not be deleted')
    }
  )
  vaultRoutes(app, {
    requireDid,
    sendError,
    pins,
    bodies: new BodyReader({ spool, newHasher: () => new LeafHasher() }),
    bounds: boundsOf(parts).map((measure) => new StoreBound(measure, () => collect({ isFull: true }))),
    collectSoon: () => {
      collector.soon()
    },
    reading: {
      store: contents,
      repair: new ContentRepair({ store: contents, node, log }),
      limiter: new ConcurrencyLimiter(PREPARING),
      budget: new ByteBudget({ maxBytes: MAX_SENT_BYTES })
    },
    quota,
    maxContentBytes: env.VAULT_MAX_CONTENT_BYTES
  })
  pins?.start()
  const close = async (): Promise<void> => {
    await Promise.all([collector.stop(), pins?.stop()])
    await requireDid.close()
  }
  return { listener: withLastAnswers(app, sendError), ready: requireDid.ready, close }
}

function boundsOf({ env, contents, usedPercent }: VaultServerParts): StoreMeasure[] {
  const { VAULT_MAX_STORE_BYTES: maxBytes } = env
  const disk = diskBound(usedPercent)
  if (maxBytes === undefined) return [disk]
  return [disk, bytesBound(() => contents.storedBytes(), maxBytes)]
}
