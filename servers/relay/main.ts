import { join } from 'node:path'
import { dataFolder, openAuthStore } from '../shared/login/auth-store.js'
import { freeBytesOf, openDatabase } from '../shared/content/database.js'
import { DiskSpace, usedPercentOf } from '../shared/content/disk-space.js'
import { ipfsHttpNode } from '../shared/ipfs/ipfs-http-node.js'
import type { ServerEnv } from '../shared/environment/read-env.js'
import { startStep } from '../shared/environment/start-error.js'
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
    const folder = dataFolder(env)
    const file = join(folder, 'relay.db')
    const database = openDatabase(file, { synchronous: 'NORMAL' })
    const bounds = { ttlSeconds: env.RELAY_STORE_TTL_SECONDS, maxBytes: env.RELAY_MAX_STORE_BYTES }
    const node = env.IPFS_API_URL === undefined ? undefined : ipfsHttpNode(env.IPFS_API_URL)
    const disk = new DiskSpace(usedPercentOf(folder, () => freeBytesOf(database)))
    const files = startStep(`Cannot use ${file} (DATA_DIR)`, () =>
      node === undefined ? new EmbeddedFileStore(database, bounds, disk) : new NodeFileStore(database, node, bounds)
    )
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
