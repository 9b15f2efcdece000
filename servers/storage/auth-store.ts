import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Store } from 'express-did-auth'
import { sqliteStore, type SqliteStoreOptions } from 'express-did-auth/stores/sqlite'
import type { ServerEnv } from '../config/read-env.js'
import { startStep } from '../config/startup-error.js'

/** Where a server's own data lies. */
export function dataFolder({ DATA_DIR, name }: Pick<ServerEnv, 'DATA_DIR' | 'name'>): string {
  return join(DATA_DIR, name)
}

/**
 * Opens a server's store of sessions, used challenges and quotas.
 *
 * @throws StartError
 */
export function openAuthStore(env: Pick<ServerEnv, 'DATA_DIR' | 'name'>, logger?: SqliteStoreOptions['logger']): Store {
  const folder = dataFolder(env)
  const file = join(folder, 'auth.db')
  return startStep(`Cannot use ${file} (DATA_DIR)`, () => {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    return sqliteStore(file, logger === undefined ? {} : { logger })
  })
}
