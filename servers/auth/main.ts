import { openAuthStore } from '../shared/login/auth-store.js'
import type { ServerEnv } from '../shared/environment/read-env.js'
import type { Surroundings } from '../shared/start/run-servers.js'
import type { Running } from '../shared/listen/serve.js'
import { startServer } from '../shared/start/start-server.js'
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
