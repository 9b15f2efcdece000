import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Store } from 'express-did-auth'
import { sqliteStore } from 'express-did-auth/stores/sqlite'
import { loadIdentity } from '../shared/identity.js'
import { logReady } from '../shared/json-log.js'
import type { ServerEnv } from '../shared/read-env.js'
import type { Surroundings } from '../shared/run-servers.js'
import { serve, type Running } from '../shared/serve.js'
import { startStep } from '../shared/start-error.js'
import { authApp } from './app.js'

/**
 * Starts the auth server, and logs one line when it can be used.
 *
 * @throws StartError
 */
export async function startAuth(env: ServerEnv, { log, metrics }: Surroundings): Promise<Running> {
  const identity = await loadIdentity(env)
  const store = openStore(join(env.DATA_DIR, 'auth'))
  let serviceUrl = ''
  let ready: Promise<void> | undefined
  const running = await serve(env.address, (port) => {
    serviceUrl = env.SERVICE_URL ?? `http://localhost:${port}`
    const app = authApp({ env, identity, serviceUrl, store, log, metrics })
    ready = app.ready
    const release = async (): Promise<void> => {
      await app.close()
      await store.close()
    }
    return { listener: app.listener, release }
  })
  await ready
  logReady(log, { url: running.url, serviceUrl, serviceDid: identity.serviceDid })
  return running
}

function openStore(folder: string): Store {
  const file = join(folder, 'auth.db')
  return startStep(`Cannot use ${file} (DATA_DIR)`, () => {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    return sqliteStore(file)
  })
}
