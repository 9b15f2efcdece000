import { fileURLToPath } from 'node:url'
import type { ServerEnv } from '../config/read-env.js'
import { startServer, type Surroundings } from '../process/run-servers.js'
import type { ServerApp, ShellParts } from '../http/create-app.js'
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
  const build = (parts: ShellParts): ServerApp => {
    const page = env.PAGE ? loadPage(PAGE_FOLDER, parts.log) : undefined
    if (page !== undefined) surroundings.onPage(parts.serviceUrl)
    return authApp({ ...parts, page })
  }
  return startServer(env, surroundings, { build })
}
