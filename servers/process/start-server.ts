import type { ServerApp, ShellParts } from '../http/create-app.js'
import { loadIdentity } from '../config/service-identity.js'
import { logReady } from '../observability/logger.js'
import type { ServerEnv } from '../config/read-env.js'
import type { Surroundings } from './run-servers.js'
import { serve, type Build, type Running } from '../http/listen.js'

/** Relay and vault receive content: 8 MiB at the minimum data rate of 4 KiB/s are 34 minutes. */
const UPLOAD_MILLISECONDS = 3_600_000

/**
 * Starts a server, and logs one line when it can be used.
 *
 * @param build - called once the port is known, which the server's URL may depend on
 * @throws StartError
 */
export async function startServer(
  env: ServerEnv,
  { log, metrics, draining, serviceUrls }: Surroundings,
  build: (parts: ShellParts) => ServerApp
): Promise<Running> {
  const identity = await loadIdentity(env)
  let serviceUrl = ''
  let ready: Promise<void> | undefined
  const buildHere: Build = (port) => {
    serviceUrl = env.SERVICE_URL ?? `http://localhost:${port}`
    serviceUrls.set(env.name, serviceUrl)
    const app = build({ env, identity, serviceUrl, log, metrics, draining, serviceUrls })
    ready = app.ready
    return { listener: app.listener, release: () => app.close() }
  }
  const running = await serve(env.address, buildHere, {
    maxConnections: env.MAX_CONNECTIONS,
    ...(env.name !== 'auth' && { request: UPLOAD_MILLISECONDS })
  })
  await ready
  logReady(log, { url: running.url, serviceUrl, serviceDid: identity.serviceDid })
  return running
}
