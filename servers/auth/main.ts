import { fileURLToPath } from 'node:url'
import { openAuthStore } from '../storage/auth-store.js'
import type { ServerEnv } from '../config/read-env.js'
import { startServer, type Surroundings } from '../process/run-servers.js'
import type { Running } from '../http/listen.js'
import { authApp } from './app.js'
import { loadPage } from './page.js'

/** Where the build puts the page. */
const PAGE_FOLDER = fileURLToPath(new URL('./page', import.meta.url))

/**
 * Starts the auth server.
 *
 * @throws StartError
 */
export function startAuth(env: ServerEnv, surroundings: Surroundings): Promise<Running> {
  return startServer(env, surroundings, (parts) => {
    const page = env.PAGE ? loadPage(PAGE_FOLDER, parts.log) : undefined
    if (page !== undefined) surroundings.onPage(parts.serviceUrl)
    const store = openAuthStore(env, parts.log)
    const app = authApp({ ...parts, store, page })
    const close = async (): Promise<void> => {
      await app.close()
      await store.close()
    }
    return { ...app, close }
  })
}
