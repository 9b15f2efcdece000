import type { ServerApp, ShellParts } from './app-shell.js'
import { loadIdentity } from './identity.js'
import { logReady } from './json-log.js'
import type { ServerEnv } from './read-env.js'
import type { Surroundings } from './run-servers.js'
import { serve, type Running } from './serve.js'

/**
 * Starts a server, and logs one line when it can be used.
 *
 * @param build - called once the port is known, which the server's URL may depend on
 * @throws StartError
 */
export async function startServer(
  env: ServerEnv,
  { log, metrics }: Surroundings,
  build: (parts: ShellParts) => ServerApp
): Promise<Running> {
  const identity = await loadIdentity(env)
  let serviceUrl = ''
  let ready: Promise<void> | undefined
  const running = await serve(env.address, (port) => {
    serviceUrl = env.SERVICE_URL ?? `http://localhost:${port}`
    const app = build({ env, identity, serviceUrl, log, metrics })
    ready = app.ready
    return { listener: app.listener, release: () => app.close() }
  })
  await ready
  logReady(log, { url: running.url, serviceUrl, serviceDid: identity.serviceDid })
  return running
}
