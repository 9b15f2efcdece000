import { join } from 'node:path'
import type { ServerEnv } from '../config/read-env.js'
import { reasonOf, StartError } from '../config/startup-error.js'
import type { Running } from '../http/listen.js'
import { ServerError } from '../http/server-error.js'
import { ipfsHttpNode } from '../ipfs/ipfs-rpc-client.js'
import { startServer, type Surroundings } from '../process/run-servers.js'
import { dataFolder, openAuthStore } from '../storage/auth-store.js'
import { usedPercentOf } from '../storage/disk-space.js'
import { openContentStore, type OpenContentStore } from '../storage/sqlite/open-content-store.js'
import { vaultApp } from './app.js'

/**
 * Starts the vault server.
 *
 * @throws StartError
 */
export async function startVault(env: ServerEnv, surroundings: Surroundings): Promise<Running> {
  const { store: contents, spool } = await openVaultContents(env)
  const node = env.IPFS_API_URL === undefined ? undefined : ipfsHttpNode(env.IPFS_API_URL)
  try {
    return await startServer(env, surroundings, (parts) => {
      const store = openAuthStore(env)
      const app = vaultApp({ ...parts, store, contents, spool, node, usedPercent: usedPercentOf(dataFolder(env)) })
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
 * Opens what the vault stores. A write that was answered survives the loss of power.
 *
 * @throws StartError
 */
export async function openVaultContents(
  env: Pick<ServerEnv, 'DATA_DIR' | 'name' | 'IPFS_API_URL'>
): Promise<OpenContentStore> {
  const folder = dataFolder(env)
  try {
    return await openContentStore({ folder, database: 'vault.db', tracksPins: env.IPFS_API_URL !== undefined })
  } catch (error) {
    if (error instanceof StartError) throw error
    const reason = reasonOf(error instanceof ServerError ? (error.cause ?? error) : error)
    throw new StartError(`Cannot use ${join(folder, 'vault.db')} (DATA_DIR): ${reason}`, { cause: error })
  }
}
