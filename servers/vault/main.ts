import type { ServerEnv } from '../config/read-env.js'
import type { Running } from '../http/listen.js'
import { startContentServer, type Surroundings } from '../process/run-servers.js'
import { vaultApp } from './app.js'

/**
 * Starts the vault.
 *
 * @throws StartError
 */
export function startVault(env: ServerEnv, surroundings: Surroundings): Promise<Running> {
  return startContentServer(env, surroundings, vaultApp)
}
