import { join } from 'node:path'
import { dataFolder, openAuthStore } from '../shared/login/auth-store.js'
import { freeBytesOf, openDatabase } from '../shared/content/database.js'
import { usedPercentOf } from '../shared/content/disk-space.js'
import { ipfsHttpNode } from '../shared/ipfs/ipfs-http-node.js'
import type { ServerEnv } from '../shared/environment/read-env.js'
import { startStep } from '../shared/environment/start-error.js'
import type { Surroundings } from '../shared/start/run-servers.js'
import type { Running } from '../shared/listen/serve.js'
import { startServer } from '../shared/start/start-server.js'
import { vaultApp } from './app.js'

/**
 * Starts the vault server.
 *
 * @throws StartError
 */
export function startVault(env: ServerEnv, surroundings: Surroundings): Promise<Running> {
  return startServer(env, surroundings, (parts) => {
    const folder = dataFolder(env)
    const store = openAuthStore(env)
    const file = join(folder, 'vault.db')
    const database = openDatabase(file, { secureDelete: true })
    const node = env.IPFS_API_URL === undefined ? undefined : ipfsHttpNode(env.IPFS_API_URL)
    const usedPercent = usedPercentOf(folder, () => freeBytesOf(database))
    const app = startStep(`Cannot use ${file} (DATA_DIR)`, () =>
      vaultApp({ ...parts, store, database, node, usedPercent })
    )
    const close = async (): Promise<void> => {
      const closed = app.close()
      // What was under way there is done again after the next start.
      node?.close()
      await closed
      await store.close()
      database.close()
    }
    return { ...app, close }
  })
}
