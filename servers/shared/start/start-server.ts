import type { ServerApp, ShellParts } from '../http/app-shell.js'
import { loadIdentity } from '../environment/identity.js'
import { logReady } from '../watch/json-log.js'
import type { ServerEnv } from '../environment/read-env.js'
import type { Surroundings } from './run-servers.js'
import { serve, type Build, type Running } from '../listen/serve.js'

/** Relay and vault take content: 8 MiB from a phone at 1 Mbit/s are more than a minute. */
const UPLOAD_MILLISECONDS = 120_000

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
  const buildHere: Build = (port) => {
    serviceUrl = env.SERVICE_URL ?? `http://localhost:${port}`
    const app = build({ env, identity, serviceUrl, log, metrics })
    ready = app.ready
    return { listener: app.listener, release: () => app.close() }
  }
  const running = await serve(env.address, buildHere, env.name === 'auth' ? {} : { request: UPLOAD_MILLISECONDS })
  await ready
  logReady(log, { url: running.url, serviceUrl, serviceDid: identity.serviceDid })
  return running
}
