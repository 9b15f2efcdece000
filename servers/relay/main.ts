import { join } from 'node:path'
import { dataFolder, openAuthStore } from '../shared/auth-store.js'
import { openDatabase } from '../shared/database.js'
import type { ServerEnv } from '../shared/read-env.js'
import type { Surroundings } from '../shared/run-servers.js'
import type { Running } from '../shared/serve.js'
import { startServer } from '../shared/start-server.js'
import { relayApp } from './app.js'
import { EmbeddedFileStore } from './embedded-file-store.js'

/**
 * Starts the relay.
 *
 * @throws StartError
 */
export function startRelay(env: ServerEnv, surroundings: Surroundings): Promise<Running> {
  return startServer(env, surroundings, (parts) => {
    const store = openAuthStore(env)
    const database = openDatabase(join(dataFolder(env), 'relay.db'))
    const files = new EmbeddedFileStore(database, {
      ttlSeconds: env.RELAY_STORE_TTL_SECONDS,
      maxBytes: env.RELAY_MAX_STORE_BYTES
    })
    const app = relayApp({ ...parts, store, files })
    const close = async (): Promise<void> => {
      await app.close()
      await store.close()
      files.close()
    }
    return { ...app, close }
  })
}
