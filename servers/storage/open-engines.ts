import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DidAuthError, type QuotaStore, type Store, type StoreLifecycle } from 'express-did-auth'
import type { PostgresDatabase } from 'express-did-auth/stores/postgres'
import { sqliteStore, type SqliteStoreOptions } from 'express-did-auth/stores/sqlite'
import type { ServerEnv } from '../config/read-env.js'
import { StartError, startStep } from '../config/startup-error.js'

/** Where a server's own data lies. */
export function dataFolder({ DATA_DIR, name }: Pick<ServerEnv, 'DATA_DIR' | 'name'>): string {
  return join(DATA_DIR, name)
}

/** Loaded when it is named: a server on SQLite starts without. */
const loadPostgres = () => import('express-did-auth/stores/postgres')

/**
 * Opens the database that the environment names, and brings the tables of sessions up to date.
 *
 * @returns also a database that is unavailable, which is waited for
 * @throws StartError when it cannot be used as it is set up
 */
export async function openDatabase(env: ServerEnv, url: string): Promise<PostgresDatabase> {
  const { PostgresDatabase, migrateStore } = await loadPostgres()
  const certificates = env.DATABASE_SSL_CA
  const ca =
    certificates === undefined
      ? undefined
      : startStep('Cannot read DATABASE_SSL_CA', () => readFileSync(certificates, 'utf8'))
  const { DATABASE_POOL_SIZE: poolSize, DATABASE_PREPARE: prepare } = env
  const database = new PostgresDatabase(url, { poolSize, prepare, ...(ca !== undefined && { ca }) })
  try {
    await migrateStore(database, { mode: env.DATABASE_MIGRATE ? 'apply' : 'check' })
  } catch (error) {
    // The stores migrate when it is there.
    if (error instanceof DidAuthError && error.code === 'ERR_STORE') return database
    await database.close()
    const reason = error instanceof Error ? error.message.replace('express-did-auth: ', '') : String(error)
    throw new StartError(`Cannot use the database (DATABASE_URL): ${reason}`, { cause: error })
  }
  return database
}

/** Opens the store of sessions in a database, which stays its caller's to close. */
export async function openPostgresStore(database: PostgresDatabase, migrate: boolean): Promise<Store> {
  const { postgresStore } = await loadPostgres()
  return postgresStore(database, { migrate })
}

/** @throws StartError when the URL is none of Redis */
export async function openQuotas(url: string): Promise<QuotaStore & StoreLifecycle> {
  const { redisQuotas } = await import('express-did-auth/stores/redis')
  return startStep('Cannot use Redis (REDIS_URL)', () => redisQuotas(url))
}

/** @throws StartError */
export function openSqliteStore(env: ServerEnv, logger: SqliteStoreOptions['logger']): Store {
  const folder = dataFolder(env)
  const file = join(folder, 'auth.db')
  return startStep(`Cannot use ${file} (DATA_DIR)`, () => {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    return sqliteStore(file, logger === undefined ? {} : { logger })
  })
}

/** What the clock of the database shows. */
export async function timeOf(database: PostgresDatabase): Promise<number> {
  const { rows } = await database.query({ text: 'SELECT extract(epoch FROM clock_timestamp())::float8 AS seconds' })
  return Number(rows[0]?.seconds)
}
