import { openAuthStore } from '../storage/auth-store.js'
import type { ServerEnv } from '../config/read-env.js'
import { startServer, type Surroundings } from '../process/run-servers.js'
import type { Running } from '../http/listen.js'
import { authApp } from './app.js'

/**
 * Starts the auth server.
 *
 * @throws StartError
 */
export function startAuth(env: ServerEnv, surroundings: Surroundings): Promise<Running> {
  return startServer(env, surroundings, (parts) => {
    const store = openAuthStore(env, parts.log)
    const app = authApp({ ...parts, store })
    const close = async (): Promise<void> => {
      await app.close()
      await store.close()
    }
    return { ...app, close }
  })
}
