import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { DidAuthError, type QuotaStore, type StoreLifecycle } from 'express-did-auth'
import type { PostgresDatabase } from 'express-did-auth/stores/postgres'
import type { ServerEnv } from '../config/read-env.js'
import { getErrorCode, ownCommand, describeReasonInWords, StartError, startStep } from '../config/startup-error.js'
import { limitMilliseconds } from '../config/time-limits.js'
import type { Metrics } from '../observability/metrics.js'

/** A storage engine that is reached over the network. It may be unavailable at any time, also at the start. */
export interface RemoteEngine {
  /** Name of the engine in the response of `/ready`. */
  readonly name: 'database' | 'redis'
  /** Variable that contains the URL of the engine. */
  readonly variable: 'DATABASE_URL' | 'REDIS_URL'
  /** @throws DidAuthError ERR_STORE while the engine is unavailable; another error if its configuration is unusable */
  readonly check: () => Promise<unknown>
  close(): Promise<void>
}

/** Options of {@link openDatabase}. */
interface DatabaseOptions {
  /** Whether the check migrates tables, only checks them, or lists the necessary statements. Default: as configured. */
  mode?: 'apply' | 'check' | 'print'
  /** Time limit for a statement. */
  timeoutSeconds?: number
}

/** Opens the database, without connecting yet. @throws StartError if its configuration is unusable */
export async function openDatabase(
  env: ServerEnv,
  url: string,
  { mode = getMigrationMode(env), timeoutSeconds }: DatabaseOptions = {}
): Promise<RemoteEngine & { database: PostgresDatabase }> {
  const { migrateStore } = await loadPostgres()
  const database = await connectDatabase(env, url, timeoutSeconds)
  const check = (): Promise<unknown> => migrateStore(database, { mode })
  return { name: 'database', variable: 'DATABASE_URL', database, check, close: () => database.close() }
}

/** Opens Redis, without connecting yet. @throws StartError if its URL is invalid */
export async function openRedis(url: string): Promise<RemoteEngine & { quotas: QuotaStore & StoreLifecycle }> {
  const { redisQuotas } = await import('express-did-auth/stores/redis')
  const quotas = startStep('Cannot use Redis (REDIS_URL)', () => redisQuotas(url))
  const check = (): Promise<void> =>
    quotas.ping().catch((cause: unknown) => {
      // Redis is available, but it is a node of a cluster.
      if (getErrorCode(cause) === 'ERR_CONFIG') throwUnusable(cause, 'Redis (REDIS_URL)')
      throw new DidAuthError('ERR_STORE', { cause })
    })
  return { name: 'redis', variable: 'REDIS_URL', quotas, check, close: async () => quotas.close() }
}

/** Connections to the storage engines in the environment. All servers of a process share these connections. */
export class Connections {
  /** Undefined: the servers use SQLite. */
  database: PostgresDatabase | undefined
  quotas: (QuotaStore & StoreLifecycle) | undefined
  readonly #engines: RemoteEngine[] = []

  /** @throws StartError if the configuration of an engine is unusable, but not if the engine is only unavailable */
  static async open(env: ServerEnv): Promise<Connections> {
    const connections = new Connections()
    try {
      await connections.#open(env)
      return connections
    } catch (error) {
      await connections.close()
      throw error
    }
  }

  /** Whether a storage engine is remote, so that it may become unavailable and recover while a server runs. */
  get areRemote(): boolean {
    return this.#engines.length > 0
  }

  /**
   * Waits until all engines are available. If DATABASE_MIGRATE is on, this migrates the session tables; otherwise it
   * only checks their version.
   *
   * @param onUnavailable - called once for each unavailable engine, with the reason in words
   * @throws StartError if the configuration of an engine is unusable
   */
  async whenAvailable(onUnavailable: (engine: RemoteEngine, reason: string) => void): Promise<void> {
    for (const engine of this.#engines) {
      await waitUntilAvailable(engine.check, (reason) => onUnavailable(engine, reason))
    }
  }

  /** Adds the numbers of database connections and of retried SQL statements to the metrics. */
  watch(metrics: Metrics): void {
    const { database } = this
    if (database === undefined) return
    metrics.watch('did_auth_database_connections', () => {
      const { total, idle, waiting } = database.stats
      return Object.entries({ total, idle, waiting }).map(([state, value]) => ({ labels: { state }, value }))
    })
    metrics.watch('did_auth_database_retries_total', () =>
      Object.entries(database.stats.retriesByCode).map(([code, value]) => ({ labels: { code }, value }))
    )
  }

  async close(): Promise<void> {
    await Promise.all(this.#engines.map((engine) => engine.close()))
  }

  async #open(env: ServerEnv): Promise<void> {
    const { DATABASE_URL: databaseUrl, REDIS_URL: redisUrl } = env
    if (databaseUrl !== undefined) {
      const engine = await openDatabase(env, databaseUrl)
      this.database = engine.database
      this.#engines.push(engine)
    }
    if (redisUrl !== undefined) {
      const engine = await openRedis(redisUrl)
      this.quotas = engine.quotas
      this.#engines.push(engine)
    }
    // An unusable configuration throws here. An unavailable engine does not: `whenAvailable` waits for it.
    for (const { check } of this.#engines) await findUnavailability(check)
  }
}

/**
 * Checks an engine every second until it is available, and reports once why it is unavailable.
 * @returns undefined if the engine is available; after `milliseconds`, the reason why it is still unavailable
 */
export async function waitUntilAvailable(
  check: () => Promise<unknown>,
  onUnavailable: (reason: string) => void,
  milliseconds = Infinity
): Promise<string | undefined> {
  const deadlineAt = performance.now() + milliseconds
  let reason = await findUnavailability(check)
  if (reason !== undefined) onUnavailable(reason)
  while (reason !== undefined && performance.now() < deadlineAt) {
    await pause(limitMilliseconds.engineRetry)
    reason = await findUnavailability(check)
  }
  return reason
}

/**
 * Runs the check of an engine.
 * @returns the reason in words why the engine is unavailable; undefined if it is available
 * @throws StartError if the configuration of the engine is unusable
 */
export async function findUnavailability(check: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await check()
    return undefined
  } catch (error) {
    return isUnavailable(error) ? describeReasonInWords(error) : throwUnusable(error)
  }
}

/** Whether an error means that an engine is unavailable. The `cause` of the error is the reason. */
export function isUnavailable(error: unknown): boolean {
  return error instanceof DidAuthError && error.code === 'ERR_STORE'
}

/** @throws StartError that tells the operator why an engine cannot be used; `what` is the engine and its variable */
export function throwUnusable(error: unknown, what?: string): never {
  throw createStartError(error, what)
}

/** Creates the error that tells the operator why an engine cannot be used. */
export function createStartError(error: unknown, what = 'the database (DATABASE_URL)'): StartError {
  if (error instanceof StartError) return error
  const reason = isUnavailable(error) ? describeReasonInWords(error) : describeEngineFault(error)
  return new StartError(`Cannot use ${what}: ${reason}`, { cause: error })
}

/** Returns the library's message about an engine, with the `migrate` command in the form that runs this program. */
export function describeEngineFault(error: unknown): string {
  const message = error instanceof Error ? error.message.replace('express-did-auth: ', '') : String(error)
  return message.replace('npx express-did-auth-servers migrate', ownCommand('migrate'))
}

/** Loads the PostgreSQL store on first use, because servers on SQLite do not need it. */
const loadPostgres = () => import('express-did-auth/stores/postgres')

/** Returns whether tables are migrated or only checked at the start. */
export const getMigrationMode = ({ DATABASE_MIGRATE }: ServerEnv): 'apply' | 'check' =>
  DATABASE_MIGRATE ? 'apply' : 'check'

/** Creates a connection pool, without connecting yet. @throws StartError if the certificate file cannot be read */
export async function connectDatabase(env: ServerEnv, url: string, timeoutSeconds?: number): Promise<PostgresDatabase> {
  const { PostgresDatabase } = await loadPostgres()
  const { DATABASE_SSL_CA: file, DATABASE_POOL_SIZE: poolSize, DATABASE_PREPARE: prepare } = env
  const ca = file && startStep('Cannot read DATABASE_SSL_CA', () => readFileSync(file, 'utf8'))
  const options = { ...(ca !== undefined && { ca }), ...(timeoutSeconds !== undefined && { timeoutSeconds }) }
  return new PostgresDatabase(url, { poolSize, prepare, ...options })
}
