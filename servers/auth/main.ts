import { openAuthStore } from '../shared/auth-store.js'
import type { ServerEnv } from '../shared/read-env.js'
import type { Surroundings } from '../shared/run-servers.js'
import type { Running } from '../shared/serve.js'
import { startServer } from '../shared/start-server.js'
import { authApp } from './app.js'

/**
 * Starts the auth server.
 *
 * @throws StartError
 */
export function startAuth(env: ServerEnv, surroundings: Surroundings): Promise<Running> {
  return startServer(env, surroundings, (parts) => {
    const store = openAuthStore(env)
    const app = authApp({ ...parts, store })
    const close = async (): Promise<void> => {
      await app.close()
      await store.close()
    }
    return { ...app, close }
  })
}
