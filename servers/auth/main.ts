import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { sqliteStore } from 'express-did-auth/stores/sqlite'
import { loadIdentity } from '../shared/identity.js'
import { jsonLog, logReady } from '../shared/json-log.js'
import type { Metrics } from '../shared/metrics.js'
import type { ServerEnv } from '../shared/read-env.js'
import { serve, type Running } from '../shared/serve.js'
import { authApp } from './app.js'

/** Starts the auth server, and prints one line when it can be used. */
export async function startAuth(env: ServerEnv, metrics?: Metrics): Promise<Running> {
  const log = jsonLog(env)
  const identity = await loadIdentity(env)
  const folder = join(env.DATA_DIR, 'auth')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const store = sqliteStore(join(folder, 'auth.db'))
  let serviceUrl = ''
  const running = await serve(env, (port) => {
    serviceUrl = env.SERVICE_URL ?? `http://localhost:${port}`
    const { app, close } = authApp({ env, identity, serviceUrl, store, log, metrics })
    const release = async (): Promise<void> => {
      await close()
      await store.close()
    }
    return { app, release }
  })
  logReady(log, { url: running.url, serviceUrl, serviceDid: identity.serviceDid })
  return running
}
