import { dataFolder, openAuthStore } from '../storage/auth-store.js'
import { openContentStore, type OpenContentStore } from '../storage/sqlite/open-content-store.js'
import { ipfsHttpNode } from '../ipfs/ipfs-rpc-client.js'
import type { ServerEnv } from '../config/read-env.js'
import { startServer, type Surroundings } from '../process/run-servers.js'
import type { Running } from '../http/listen.js'
import { relayApp } from './app.js'

/**
 * Starts the relay.
 *
 * @throws StartError
 */
export async function startRelay(env: ServerEnv, surroundings: Surroundings): Promise<Running> {
  const { store: contents, spool } = await openRelayContents(env)
  const node = env.IPFS_API_URL === undefined ? undefined : ipfsHttpNode(env.IPFS_API_URL)
  try {
    return await startServer(env, surroundings, (parts) => {
      const store = openAuthStore(env)
      const app = relayApp({ ...parts, store, contents, ledger: contents, spool, node })
      const close = async (): Promise<void> => {
        const closed = app.close()
        // Calls under way are made again after the next start.
        node?.close()
        await closed
        await Promise.all([store.close(), contents.close()])
      }
      return { ...app, close }
    })
  } catch (error) {
    await contents.close()
    throw error
  }
}

/**
 * Opens what the relay stores. A file that was answered survives the end of the process, and not always the loss of power:
 * the relay does not wait for the disk.
 *
 * @throws StartError
 */
export function openRelayContents(
  env: Pick<ServerEnv, 'DATA_DIR' | 'name' | 'IPFS_API_URL' | 'RELAY_FILE_TTL_SECONDS'>
): Promise<OpenContentStore> {
  const tracksPins = env.IPFS_API_URL !== undefined
  const oldFileTtlSeconds = env.RELAY_FILE_TTL_SECONDS
  const folder = dataFolder(env)
  return openContentStore({ folder, database: 'relay.db', isDurable: false, tracksPins, oldFileTtlSeconds })
}
