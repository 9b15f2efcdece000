import type { ServerEnv } from '../config/read-env.js'
import { contentsOf, openServer, type StartParts } from '../process/start-server.js'
import { openContentEngine } from '../storage/engine.js'
import { relayApp } from './app.js'

/**
 * Starts the relay.
 *
 * @throws StartError
 */
export async function startRelay(env: ServerEnv, start: StartParts): Promise<void> {
  const engine = await openContentEngine(env, start.connections)
  const own = contentsOf(env, start, engine)
  const { parts, serve } = await openServer(env, start, engine, own)
  await serve(relayApp({ ...parts, ...own }))
}
