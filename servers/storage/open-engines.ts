import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { DidAuthError, type QuotaStore, type Store, type StoreLifecycle } from 'express-did-auth'
import type { PostgresDatabase } from 'express-did-auth/stores/postgres'
import { sqliteStore } from 'express-did-auth/stores/sqlite'
import { ownCommand } from '../config/own-command.js'
import type { ServerEnv } from '../config/read-env.js'
import { codeOf, reasonInWords, StartError, startStep } from '../config/startup-error.js'
import type { ContentImport } from './content-inspection.js'
import type { ObjectStore } from './object-store.js'
import type { OpenContentStore } from './opened-content-store.js'
import type { S3ObjectStore } from './s3/s3-object-store.js'

/** Where a server's own data lies. */
export function dataFolder({ DATA_DIR, name }: Pick<ServerEnv, 'DATA_DIR' | 'name'>): string {
  return join(DATA_DIR, name)
}

const RETRY_MILLISECONDS = 1_000

/** An engine that is reached over the network. */
export interface RemoteEngine {
  /** As `/ready` lists it. */
  readonly name: 'database' | 'redis'
  /** Which names it. */
  readonly variable: string
  /** @throws DidAuthError ERR_STORE while it is unavailable */
  readonly ask: () => Promise<unknown>
}

/**
 * Asks an engine every second, until it answers.
 *
 * @param onUnavailable - called once, with the reason in words
 * @throws StartError when it cannot be used as it is set up
 */
export async function untilAvailable({ ask }: RemoteEngine, onUnavailable: (reason: string) => void): Promise<void> {
  for (let isReported = false; ; isReported = true) {
    try {
      await ask()
      return
    } catch (error) {
      if (!(error instanceof DidAuthError) || error.code !== 'ERR_STORE') throw unusable(error)
      if (!isReported) onUnavailable(reasonInWords(error.cause ?? error))
    }
    await pause(RETRY_MILLISECONDS)
  }
}

/** Loaded when it is named: a server on SQLite starts without. */
const loadPostgres = () => import('express-did-auth/stores/postgres')

/**
 * A pool of connections to the database that the environment names. It asks nothing of the database.
 *
 * @param options - for a command, which may wait longer than a request
 * @throws StartError when the certificates of its authority cannot be read
 */
export async function connectDatabase(
  env: ServerEnv,
  url: string,
  options: { readonly timeoutSeconds?: number } = {}
): Promise<PostgresDatabase> {
  const { PostgresDatabase } = await loadPostgres()
  const certificates = env.DATABASE_SSL_CA
  const ca =
    certificates === undefined
      ? undefined
      : startStep('Cannot read DATABASE_SSL_CA', () => readFileSync(certificates, 'utf8'))
  const { DATABASE_POOL_SIZE: poolSize, DATABASE_PREPARE: prepare } = env
  return new PostgresDatabase(url, { poolSize, prepare, ...(ca !== undefined && { ca }), ...options })
}

/**
 * Opens the database that the environment names, and brings the tables of sessions up to date.
 *
 * @returns also a database that is unavailable, which {@link untilAvailable} waits for
 * @throws StartError when it cannot be used as it is set up
 */
export async function openDatabase(env: ServerEnv, url: string): Promise<PostgresDatabase> {
  const database = await connectDatabase(env, url)
  try {
    await whenThere(() => migrateSessions(database, env))
  } catch (error) {
    await database.close()
    throw error
  }
  return database
}

/** Brings the tables of sessions up to date. @throws DidAuthError ERR_STORE while the database is unavailable */
export async function migrateSessions(database: PostgresDatabase, env: ServerEnv): Promise<void> {
  const { migrateStore } = await loadPostgres()
  await migrateStore(database, { mode: modeOf(env) })
}

/** How tables are brought up to date at the start. */
export const modeOf = ({ DATABASE_MIGRATE }: ServerEnv): 'apply' | 'check' => (DATABASE_MIGRATE ? 'apply' : 'check')

/**
 * Brings tables up to date at the start. Where the database is unavailable, its stores do it later.
 *
 * @throws StartError when it cannot be used as it is set up
 */
async function whenThere(migrate: () => Promise<unknown>): Promise<void> {
  try {
    await migrate()
  } catch (error) {
    if (error instanceof DidAuthError && error.code === 'ERR_STORE') return
    throw unusable(error)
  }
}

/** What an operator reads about an engine that cannot be used as it is set up. */
export function unusable(error: unknown, what = 'the database (DATABASE_URL)'): StartError {
  return new StartError(`Cannot use ${what}: ${faultOfEngine(error)}`, { cause: error })
}

/** The library's sentence about an engine, for a process that runs the servers: with its own command. */
export function faultOfEngine(error: unknown): string {
  const sentence = error instanceof Error ? error.message.replace('express-did-auth: ', '') : String(error)
  return sentence.replace('npx express-did-auth-servers migrate', ownCommand('migrate'))
}

/** Opens the store of sessions in a database, which stays its caller's to close. */
export async function openPostgresStore(database: PostgresDatabase, migrate: boolean): Promise<Store> {
  const { postgresStore } = await loadPostgres()
  return postgresStore(database, { migrate })
}

/**
 * Opens what relay or vault store in a database, which stays its caller's to close.
 *
 * @throws StartError
 */
export async function openPostgresContents(
  database: PostgresDatabase,
  env: ServerEnv,
  objects: ObjectStore | undefined
): Promise<OpenContentStore & { readonly imports: ContentImport }> {
  const { migrateContent, openPostgresContentStore } = await import('./postgres/open-postgres-content-store.js')
  const tables = env.name === 'relay' ? 'relay' : 'vault'
  const migrate = (): Promise<unknown> => migrateContent(database, tables, modeOf(env))
  await whenThere(migrate)
  const tracksPins = env.IPFS_API_URL !== undefined
  const folder = dataFolder(env)
  return openPostgresContentStore({ database, tables, folder, tracksPins, migrate, ...(objects && { objects }) })
}

/** The object storage that the environment names; below the server's own prefix, since servers may share a bucket. */
export async function openObjects(env: ServerEnv): Promise<S3ObjectStore | undefined> {
  const { S3_ENDPOINT: endpoint, S3_BUCKET: bucket, S3_REGION: region, S3_FORCE_PATH_STYLE: forcePathStyle } = env
  const { S3_ACCESS_KEY_ID: accessKeyId, S3_SECRET_ACCESS_KEY: secretAccessKey } = env
  // They are given together, or not at all.
  if (!endpoint || !bucket || !accessKeyId || !secretAccessKey) return undefined
  const { S3ObjectStore } = await import('./s3/s3-object-store.js')
  const prefix = `${env.name}/`
  return new S3ObjectStore({ endpoint, bucket, region, forcePathStyle, accessKeyId, secretAccessKey, prefix })
}

/** @throws StartError when the URL is none of Redis, or names one node of a cluster; one that is unavailable is waited for */
export async function openQuotas(url: string): Promise<QuotaStore & StoreLifecycle> {
  const { redisQuotas } = await import('express-did-auth/stores/redis')
  const quotas = startStep('Cannot use Redis (REDIS_URL)', () => redisQuotas(url))
  await quotas.ping().catch(async (error: unknown) => {
    if (codeOf(error) !== 'ERR_CONFIG') return
    await quotas.close()
    throw unusable(error, 'Redis (REDIS_URL)')
  })
  return quotas
}

/** @throws StartError */
export function openSqliteStore(env: ServerEnv): Store {
  const folder = dataFolder(env)
  const file = join(folder, 'auth.db')
  return startStep(`Cannot use ${file} (DATA_DIR)`, () => {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    return sqliteStore(file)
  })
}

/** What the clock of the database shows. */
export async function timeOf(database: PostgresDatabase): Promise<number> {
  const { rows } = await database.query({
    text: 'SELECT extract(epoch FROM pg_catalog.clock_timestamp())::float8 AS seconds'
  })
  return Number(rows[0]?.seconds)
}
