import type { ServerEnv } from '../config/read-env.js'
import type { Running } from '../http/listen.js'
import { startContentServer, type Surroundings } from '../process/run-servers.js'
import { relayApp } from './app.js'

/**
 * Starts the relay.
 *
 * @throws StartError
 */
export function startRelay(env: ServerEnv, surroundings: Surroundings): Promise<Running> {
  return startContentServer(env, surroundings, (parts) => relayApp({ ...parts, ledger: parts.contents }))
}
