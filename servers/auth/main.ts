import { fileURLToPath } from 'node:url'
import type { ServerEnv } from '../config/read-env.js'
import { openServer, type StartParts } from '../process/start-server.js'
import { openEngine } from '../storage/engine.js'
import { authApp } from './app.js'
import { loadPage } from './page.js'

/** Where the build puts the page. */
const PAGE_FOLDER = fileURLToPath(new URL('./page', import.meta.url))

/**
 * Starts the auth server.
 *
 * @throws StartError
 */
export async function startAuth(env: ServerEnv, start: StartParts): Promise<() => Promise<void>> {
  const { parts, serve } = await openServer(env, start, await openEngine(env, start.connections))
  const page = env.PAGE ? loadPage(PAGE_FOLDER, parts.log) : undefined
  if (page !== undefined) start.onPage(parts.serviceUrl)
  return () => serve(authApp({ ...parts, page }))
}
