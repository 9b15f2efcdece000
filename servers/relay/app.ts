import { es256kSigner, type Clock, type Store } from 'express-did-auth'
import { appShell, sealed, type ServerApp, type ShellParts } from '../shared/http/app-shell.js'
import { describeError } from '../shared/watch/describe-error.js'
import { challengeSecretOf, maxRequestsOf } from '../shared/login/did-auth.js'
import type { IpfsNode } from '../shared/ipfs/ipfs-node.js'
import { errorSender } from '../shared/http/server-error.js'
import { FileRelay } from './file-relay.js'
import type { FileStore } from './file-store.js'
import { MemoryFiles } from './memory-files.js'
import { RelayAuth } from './relay-auth.js'
import { restoreFiles } from './restore-files.js'
import { addRelayRoutes, relayRouteNames } from './routes.js'
import { loadServiceKey } from './service-key.js'
import { SlowReaders } from './slow-readers.js'
import { sweepEveryMinute } from './sweep-timer.js'

/** What the relay is built of. */
export interface RelayParts extends ShellParts {
  /** For used challenges. */
  store: Store
  files: FileStore
  /** Where files are, when they are not in the server's own database. */
  node?: Pick<IpfsNode, 'ping'> | undefined
  clock?: Clock
}

const DEFAULT_TIME_SLOT_SECONDS = 600

const systemClock: Clock = { nowSeconds: () => Math.floor(Date.now() / 1000) }

/** Builds the relay. Stores and node are their giver's to close. */
export function relayApp(parts: RelayParts): ServerApp {
  const { env, identity, serviceUrl, log, store, files, node, clock = systemClock } = parts
  const signer = es256kSigner(identity.privateKey)
  const app = appShell(parts, relayRouteNames, [
    { name: 'store', isNeeded: true, check: () => Promise.all([store.ping(), files.ping()]) },
    { name: 'signer', isNeeded: true, check: () => signer('ready?') },
    ...(node === undefined
      ? []
      : [{ name: 'ipfs', isNeeded: false, check: (signal: AbortSignal) => node.ping(signal) }])
  ])

  const key = loadServiceKey(identity.privateKey)
  const auth = new RelayAuth({
    serviceUrl,
    serviceDid: identity.serviceDid,
    challengeSecret: challengeSecretOf(env, identity.challengeSecret),
    tokenSeconds: env.RELAY_TOKEN_EXPIRATION_TIME_IN_SECONDS,
    maxRequests: maxRequestsOf(env) ?? Infinity,
    timeSlotSeconds: env.TIME_SLOT_IN_SECONDS ?? DEFAULT_TIME_SLOT_SECONDS,
    key,
    store,
    clock
  })

  const closing = new AbortController()
  const failed = (event: string) => (error: unknown) => {
    log.warn({ event, ...describeError(error) }, event)
  }
  const [maxBytes, ttlSeconds] = [env.RELAY_MAX_MEMORY_BYTES, env.RELAY_FILE_TTL_SECONDS]
  const slowReaders = new SlowReaders()
  const memory = new MemoryFiles({
    maxBytes,
    ttlSeconds,
    onGone: (answer) => {
      slowReaders.letGo(answer)
    }
  })
  const since = clock.nowSeconds() - ttlSeconds
  const restored = restoreFiles({ memory, store: files, maxBytes }, since, closing.signal).catch(
    failed('restore-failed')
  )
  const bounds = { maxBytesPerDid: env.RELAY_MAX_BYTES_PER_DID, maxMemoryBytes: maxBytes }
  const relay = new FileRelay({ ...bounds, memory, store: files, restored, clock })
  const swept = sweepEveryMinute(() => relay.sweep(closing.signal), failed('sweep-failed'), closing.signal)

  const sendError = errorSender(serviceUrl, log)
  addRelayRoutes(app, { auth, relay, slowReaders, maxFileBytes: env.RELAY_MAX_FILE_BYTES, sendError })
  return {
    listener: sealed(app, sendError),
    // Not for the restore, which may take seconds: what is not here yet is looked for in the store.
    ready: key.then(() => undefined),
    close: async () => {
      closing.abort()
      await Promise.all([swept, restored])
    }
  }
}
