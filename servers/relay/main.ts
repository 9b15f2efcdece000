import { join } from 'node:path'
import { dataFolder, openAuthStore } from '../shared/login/auth-store.js'
import { openDatabase } from '../shared/content/database.js'
import { ipfsHttpNode } from '../shared/ipfs/ipfs-http-node.js'
import type { ServerEnv } from '../shared/environment/read-env.js'
import type { Surroundings } from '../shared/start/run-servers.js'
import type { Running } from '../shared/listen/serve.js'
import { startServer } from '../shared/start/start-server.js'
import { relayApp } from './app.js'
import { EmbeddedFileStore } from './embedded-file-store.js'
import { NodeFileStore } from './node-file-store.js'

/**
 * Starts the relay.
 *
 * @throws StartError
 */
export function startRelay(env: ServerEnv, surroundings: Surroundings): Promise<Running> {
  return startServer(env, surroundings, (parts) => {
    const store = openAuthStore(env)
    const database = openDatabase(join(dataFolder(env), 'relay.db'), { synchronous: 'NORMAL' })
    const bounds = { ttlSeconds: env.RELAY_STORE_TTL_SECONDS, maxBytes: env.RELAY_MAX_STORE_BYTES }
    const node = env.IPFS_API_URL === undefined ? undefined : ipfsHttpNode(env.IPFS_API_URL)
    const files =
      node === undefined ? new EmbeddedFileStore(database, bounds) : new NodeFileStore(database, node, bounds)
    const app = relayApp({ ...parts, store, files, node })
    const close = async (): Promise<void> => {
      node?.close()
      await app.close()
      await store.close()
      database.close()
    }
    return { ...app, close }
  })
}
