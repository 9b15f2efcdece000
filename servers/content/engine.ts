import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { combineStores, type Store } from 'express-did-auth'
import type { PostgresDatabase } from 'express-did-auth/stores/postgres'
import { sqliteStore } from 'express-did-auth/stores/sqlite'
import { createPrivateFolder } from '../config/private-files.js'
import type { ServerEnv } from '../config/read-env.js'
import { getErrorCode, StartError, startStep } from '../config/startup-error.js'
import { limitMilliseconds } from '../config/time-limits.js'
import {
  createClockCheck,
  FRESH_WRITE_MILLISECONDS,
  createSteadyClock,
  type Dependency
} from '../observability/health-checks.js'
import { Connections, getMigrationMode, findUnavailability } from './connections.js'
import type { ContentMaintenance, ObjectStore } from './content-store.js'
import { createDiskUsage, type UsedPercent } from './disk-space.js'
import type { S3ObjectStore } from './s3/s3-object-store.js'
import { openContentStore } from './sql/open-sqlite-contents.js'
import type { OpenContentStore } from './sql/sql-content-store.js'

/** Minimum bound of clock skew. If the skew exceeds the refresh grace, concurrent refreshes of tabs look like theft. */
const MIN_SKEW_SECONDS = limitMilliseconds.clockDifference / 1_000

/** Storage of a server: SQLite and files in `DATA_DIR`, or the engines that the environment names. */
export interface Engine {
  /** Store of sessions, challenge uses and quotas. */
  readonly sessions: Store
  readonly dependencies: readonly Dependency[]
  close(): Promise<void>
}

/** Storage of relay or vault. */
export interface ContentEngine extends Engine {
  readonly contents: OpenContentStore
  /** Returns the used percentage of the disk that contains content; 0 if content is not on a local disk. */
  readonly usedPercent: UsedPercent
}

/** Opens the storage of a server. Engines in the network may be unavailable. @throws StartError */
export async function openEngine(env: ServerEnv, connections: Connections, contents?: OpenedContents): Promise<Engine> {
  const { database, quotas } = connections
  const durable = database === undefined ? openSqliteSessions(env) : await openPostgresSessions(env, database)
  const sessions = quotas === undefined ? durable : combineStores({ sessions: durable, challengeUses: durable, quotas })
  const checked = { durable, contents: contents?.store, bucket: contents?.bucket }
  const dependencies = createDependencies(env, connections, checked)
  // The servers of a process share the connection to Redis, which `Connections` closes.
  return { sessions, dependencies, close: () => durable.close() }
}

/** Opens the storage of relay or vault, as {@link openEngine} does. */
export async function openContentEngine(env: ServerEnv, connections: Connections): Promise<ContentEngine> {
  const contents = await openContents(env, connections)
  try {
    const engine = await openEngine(env, connections, contents)
    const close = async (): Promise<void> => {
      await engine.close().finally(() => contents.store.close())
    }
    const isLocal = connections.database === undefined
    const usedPercent = isLocal ? createDiskUsage(getDataFolder(env)) : () => Promise.resolve(0)
    return { ...engine, contents, usedPercent, close }
  } catch (error) {
    await contents.store.close()
    throw error
  }
}

export function getDataFolder({ DATA_DIR, name }: Pick<ServerEnv, 'DATA_DIR' | 'name'>): string {
  return join(DATA_DIR, name)
}

function openSqliteSessions(env: ServerEnv): Store {
  const folder = getDataFolder(env)
  const file = join(folder, 'auth.db')
  return startStep(`Cannot use ${file} (DATA_DIR)`, () => {
    createPrivateFolder(folder)
    return sqliteStore(file)
  })
}

async function openPostgresSessions(env: ServerEnv, database: PostgresDatabase): Promise<Store> {
  const { postgresStore } = await import('express-did-auth/stores/postgres')
  return postgresStore(database, { migrate: env.DATABASE_MIGRATE })
}

/** Storage of relay or vault, and the bucket for large content. */
export interface OpenedContents extends OpenContentStore {
  readonly bucket: S3ObjectStore | undefined
}

async function openContents(env: ServerEnv, { database }: Connections): Promise<OpenedContents> {
  const bucket = await openBucket(env)
  if (database !== undefined) return { ...(await openPostgresContents(database, env, bucket)), bucket }
  const opened = await openContentStore({
    folder: getDataFolder(env),
    database: `${env.name}.db`,
    ...(bucket && { objects: bucket }),
    // The relay does not wait for disk syncs: a power failure may lose its newest files.
    isDurable: env.name !== 'relay',
    tracksPins: env.IPFS_API_URL !== undefined
  })
  return { ...opened, bucket }
}

/** Runs a command on existing storage of relay or vault. @throws StartError if there is none, or it cannot be opened */
export async function useExistingContents<T>(
  env: ServerEnv,
  work: (contents: OpenContentStore) => Promise<T>
): Promise<T> {
  const file = join(getDataFolder(env), `${env.name}.db`)
  if (env.DATABASE_URL === undefined && !existsSync(file))
    throw new StartError(`There is no ${env.name} in ${file} (DATA_DIR)`)
  const connections = await Connections.open(env)
  try {
    const contents = await openContents(env, connections)
    return await work(contents).finally(() => contents.store.close())
  } finally {
    await connections.close()
  }
}

/** Opens the content of relay or vault in a database, which the caller closes. @throws StartError */
export async function openPostgresContents(
  database: PostgresDatabase,
  env: ServerEnv,
  objects: ObjectStore | undefined
): Promise<OpenContentStore> {
  const { migrateContent, openPostgresContentStore } = await import('./sql/open-postgres-contents.js')
  const tables = env.name === 'relay' ? 'relay' : 'vault'
  const migrate = (): Promise<unknown> => migrateContent(database, tables, getMigrationMode(env))
  await findUnavailability(migrate)
  const tracksPins = env.IPFS_API_URL !== undefined
  const folder = getDataFolder(env)
  return openPostgresContentStore({ database, tables, folder, tracksPins, migrate, ...(objects && { objects }) })
}

/** Opens the bucket that the environment names. Each server has its own prefix, because servers may share a bucket. */
export async function openBucket(env: ServerEnv): Promise<S3ObjectStore | undefined> {
  const { S3_ENDPOINT: endpoint, S3_BUCKET: bucket, S3_REGION: region, S3_FORCE_PATH_STYLE: forcePathStyle } = env
  const { S3_ACCESS_KEY_ID: accessKeyId, S3_SECRET_ACCESS_KEY: secretAccessKey } = env
  // Either all of these variables are set, or none.
  if (!endpoint || !bucket || !accessKeyId || !secretAccessKey) return undefined
  const { createS3ObjectStore } = await import('./s3/s3-object-store.js')
  const prefix = `${env.name}/`
  return createS3ObjectStore({ endpoint, bucket, region, forcePathStyle, accessKeyId, secretAccessKey, prefix })
}

type Pingable = Pick<Store, 'ping'>

/** Creates the checks of `/ready` for the storage and the clock of a server. */
export function createDependencies(
  { REFRESH_REUSE_GRACE_SECONDS: graceSeconds = 0 }: ServerEnv,
  { database, quotas }: Partial<Pick<Connections, 'database' | 'quotas'>>,
  parts: { durable: Pingable; contents?: Pick<ContentMaintenance, 'probe'> | undefined; bucket?: Pingable | undefined }
): Dependency[] {
  const { durable, contents, bucket } = parts
  const settings = { isNeeded: true, freshMilliseconds: FRESH_WRITE_MILLISECONDS }
  const check = (): Promise<unknown> => Promise.all([durable.ping(), contents?.probe()]).catch(ignoreBusy)
  // A server on SQLite has no second clock to compare with. A jump may be a correction, so the server stays
  // ready.
  const { reference, ...clock } =
    database === undefined
      ? {
          reference: { name: 'the monotonic clock', read: createSteadyClock() },
          isNeeded: false,
          failure: 'jumped' as const
        }
      : {
          reference: { name: 'the database', read: () => readTime(database) },
          isNeeded: true,
          failure: 'wrong' as const
        }
  const checkClock = createClockCheck(reference, Math.max(MIN_SKEW_SECONDS, graceSeconds))
  return [
    { name: database === undefined ? 'store' : 'database', ...settings, check },
    ...(quotas === undefined ? [] : [{ name: 'redis', ...settings, check: () => quotas.ping() }]),
    ...(bucket === undefined ? [] : [{ name: 'objects', ...settings, check: () => bucket.ping() }]),
    { name: 'clock', ...clock, check: checkClock }
  ]
}

async function readTime(database: PostgresDatabase): Promise<number> {
  const text = 'SELECT extract(epoch FROM pg_catalog.clock_timestamp())::float8 AS seconds'
  return Number((await database.query({ text })).rows[0]?.seconds)
}

/** Ignores ERR_BUSY: an overloaded instance that stops being ready would move its load to the other instances. */
function ignoreBusy(error: unknown): void {
  for (let cause = error; cause instanceof Error; cause = cause.cause) if (getErrorCode(cause) === 'ERR_BUSY') return
  throw error
}
