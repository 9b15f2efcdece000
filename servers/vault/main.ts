import { join } from 'node:path'
import { dataFolder, openAuthStore } from '../shared/auth-store.js'
import { openDatabase } from '../shared/database.js'
import type { ServerEnv } from '../shared/read-env.js'
import type { Surroundings } from '../shared/run-servers.js'
import type { Running } from '../shared/serve.js'
import { startServer } from '../shared/start-server.js'
import { vaultApp } from './app.js'
import { usedPercentOf } from './disk-space.js'

/**
 * Starts the vault server.
 *
 * @throws StartError
 */
export function startVault(env: ServerEnv, surroundings: Surroundings): Promise<Running> {
  return startServer(env, surroundings, (parts) => {
    const folder = dataFolder(env)
    const store = openAuthStore(env)
    const database = openDatabase(join(folder, 'vault.db'))
    const app = vaultApp({ ...parts, store, database, node: undefined, usedPercent: usedPercentOf(folder) })
    const close = async (): Promise<void> => {
      await app.close()
      await store.close()
      database.close()
    }
    return { ...app, close }
  })
}
