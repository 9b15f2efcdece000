import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { DidAuthError, type QuotaStore, type StoreLifecycle } from 'express-did-auth'
import type { PostgresDatabase } from 'express-did-auth/stores/postgres'
import type { ServerEnv } from '../config/read-env.js'
import {
  describeReasonInWords,
  findCertificateRemedy,
  getErrorCode,
  ownCommand,
  StartError,
  startStep
} from '../config/startup-error.js'
import { limitMilliseconds } from '../config/time-limits.js'
import type { Metrics } from '../observability/metrics.js'

/** Names of the storage engines in the network, for operators, and their variables. */
const ENGINES = {
  database: { name: 'the database (DATABASE_URL)', url: 'DATABASE_URL', ca: 'DATABASE_SSL_CA' },
  redis: { name: 'Redis (REDIS_URL)', url: 'REDIS_URL', ca: 'REDIS_SSL_CA' }
} as const
export type EngineId = keyof typeof ENGINES

/** A storage engine that is reached over the network. It may be unavailable at any time, also at the start. */
export interface RemoteEngine {
  /** Name of the engine in the response of `/ready`. */
  readonly name: EngineId
  /** Variable that contains the URL of the engine. */
  readonly variable: (typeof ENGINES)[EngineId]['url']
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

/** Opens Redis, without connecting yet. @throws StartError if its URL is invalid, or its certificates cannot be used */
export async function openRedis(
  env: Pick<ServerEnv, 'REDIS_SSL_CA'>,
  url: string
): Promise<RemoteEngine & { quotas: QuotaStore & StoreLifecycle }> {
  const { redisQuotas } = await import('express-did-auth/stores/redis')
  if (env.REDIS_SSL_CA !== undefined && !url.startsWith('rediss://'))
    throw new StartError('REDIS_SSL_CA needs a REDIS_URL with TLS, rediss://')
  const ca = readCertificates('REDIS_SSL_CA', env.REDIS_SSL_CA)
  const quotas = startStep('Cannot use Redis (REDIS_URL)', () => redisQuotas(url, ca))
  const check = (): Promise<void> =>
    quotas.ping().catch((cause: unknown) => {
      // Redis is available, but it is a node of a cluster.
      if (getErrorCode(cause) === 'ERR_CONFIG') throwUnusable(cause, 'redis')
      const error = new DidAuthError('ERR_STORE', { cause })
      throw isUnavailable(error) ? error : createStartError(error, 'redis')
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
      const engine = await openRedis(env, redisUrl)
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

/**
 * Whether an error means that an engine is unavailable. The `cause` of the error is the reason. A certificate that is
 * refused stays so until an operator acts.
 */
export function isUnavailable(error: unknown): boolean {
  return isStoreError(error) && findCertificateRemedy(error, ENGINES.database) === undefined
}

const isStoreError = (error: unknown): boolean => error instanceof DidAuthError && error.code === 'ERR_STORE'

/** @throws StartError that tells the operator why an engine cannot be used */
export function throwUnusable(error: unknown, engine?: EngineId): never {
  throw createStartError(error, engine)
}

/** Creates the error that tells the operator why an engine cannot be used. */
export function createStartError(error: unknown, engine: EngineId = 'database'): StartError {
  if (error instanceof StartError) return error
  const { name } = ENGINES[engine]
  const reason = isStoreError(error) ? describeReasonInWords(error) : describeEngineFault(error)
  const remedy = findCertificateRemedy(error, ENGINES[engine])
  return new StartError(`Cannot use ${name}: ${reason}${remedy === undefined ? '' : `; ${remedy}`}`, { cause: error })
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
  const { DATABASE_POOL_SIZE: poolSize, DATABASE_PREPARE: prepare } = env
  const ca = readCertificates('DATABASE_SSL_CA', env.DATABASE_SSL_CA)
  const options = { poolSize, prepare, ...ca, ...(timeoutSeconds !== undefined && { timeoutSeconds }) }
  return startStep(`Cannot use ${ENGINES.database.name}`, () => new PostgresDatabase(url, options))
}

/** Reads the file of CA certificates that a variable names. @throws StartError if it cannot be read */
function readCertificates(variable: string, file: string | undefined): { ca?: string } {
  return file === undefined ? {} : { ca: startStep(`Cannot read ${variable}`, () => readFileSync(file, 'utf8')) }
}
