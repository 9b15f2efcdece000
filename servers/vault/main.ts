import type { ServerEnv } from '../config/read-env.js'
import { contentsOf, openServer, type StartParts } from '../process/start-server.js'
import { openContentEngine } from '../storage/engine.js'
import { vaultApp } from './app.js'

/**
 * Starts the vault.
 *
 * @throws StartError
 */
export async function startVault(env: ServerEnv, start: StartParts): Promise<void> {
  const engine = await openContentEngine(env, start.connections)
  const own = contentsOf(env, start, engine)
  const { parts, serve } = await openServer(env, start, engine, own)
  await serve(vaultApp({ ...parts, ...own }))
}
