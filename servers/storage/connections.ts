import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { DidAuthError, type QuotaStore, type StoreLifecycle } from 'express-did-auth'
import type { PostgresDatabase } from 'express-did-auth/stores/postgres'
import type { ServerEnv } from '../config/read-env.js'
import { getErrorCode, ownCommand, describeReasonInWords, StartError, startStep } from '../config/startup-error.js'
import type { Metrics } from '../observability/metrics.js'

const RETRY_MILLISECONDS = 1_000

/** A storage engine in the network. It may be unavailable, at the start and later. */
export interface RemoteEngine {
  /** Name of the engine in the answer of `/ready`. */
  readonly name: 'database' | 'redis'
  readonly variable: 'DATABASE_URL' | 'REDIS_URL'
  /** @throws DidAuthError ERR_STORE while it is unavailable; StartError if its configuration cannot be used */
  readonly ask: () => Promise<unknown>
}

/** Engines that the environment names. The servers of a process share them. If none is named: SQLite and memory. */
export class Connections {
  database: PostgresDatabase | undefined
  quotas: (QuotaStore & StoreLifecycle) | undefined
  readonly #engines: RemoteEngine[] = []

  /** @throws StartError when an engine cannot be used as it is set up; one that is unavailable is opened as well */
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

  /** Whether storage may become available again while a server runs. */
  get areRemote(): boolean {
    return this.#engines.length > 0
  }

  /**
   * Waits until database and Redis answer, with the tables of sessions up to date.
   *
   * @param onUnavailable - called once for each of them that is unavailable, with the reason in words
   * @throws StartError when one cannot be used as it is set up
   */
  async whenAvailable(onUnavailable: (engine: RemoteEngine, reason: string) => void): Promise<void> {
    for (const engine of this.#engines) {
      await waitUntilAvailable(engine.ask, (reason) => onUnavailable(engine, reason))
    }
  }

  /** Shows the connections of the database among the metrics. */
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
    await Promise.all([this.database?.close(), this.quotas?.close()])
  }

  async #open(env: ServerEnv): Promise<void> {
    const { DATABASE_URL: databaseUrl, REDIS_URL: redisUrl } = env
    if (databaseUrl !== undefined) {
      const { migrateStore } = await loadPostgres()
      const database = (this.database = await connectDatabase(env, databaseUrl))
      const ask = (): Promise<unknown> => migrateStore(database, { mode: getMigrationMode(env) })
      this.#engines.push({ name: 'database', variable: 'DATABASE_URL', ask })
    }
    if (redisUrl !== undefined) {
      const quotas = (this.quotas = await connectRedis(redisUrl))
      this.#engines.push({ name: 'redis', variable: 'REDIS_URL', ask: () => pingRedis(quotas) })
    }
    for (const { ask } of this.#engines) await findUnavailability(ask)
  }
}

/** Tries every second until there is an answer. Reports once why there is none. @returns why there is still none */
export async function waitUntilAvailable(
  ask: () => Promise<unknown>,
  onUnavailable: (reason: string) => void,
  milliseconds = Infinity
): Promise<string | undefined> {
  const end = performance.now() + milliseconds
  let reason = await findUnavailability(ask)
  if (reason !== undefined) onUnavailable(reason)
  while (reason !== undefined && performance.now() < end) {
    await pause(RETRY_MILLISECONDS)
    reason = await findUnavailability(ask)
  }
  return reason
}

/** @returns why an engine is unavailable, in words @throws StartError when it cannot be used as it is set up */
export async function findUnavailability(ask: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await ask()
    return undefined
  } catch (error) {
    return isUnavailable(error) ? describeReasonInWords(error) : throwUnusable(error)
  }
}

/** Whether an engine did not answer. The reason is the cause. */
export function isUnavailable(error: unknown): boolean {
  return error instanceof DidAuthError && error.code === 'ERR_STORE'
}

/** @throws StartError with what an operator reads about an engine that cannot be used */
export function throwUnusable(error: unknown, what = 'the database (DATABASE_URL)'): never {
  if (error instanceof StartError) throw error
  const reason = isUnavailable(error) ? describeReasonInWords(error) : describeEngineFault(error)
  throw new StartError(`Cannot use ${what}: ${reason}`, { cause: error })
}

/** The library's sentence about an engine, for a process that runs the servers: with its own command. */
export function describeEngineFault(error: unknown): string {
  const sentence = error instanceof Error ? error.message.replace('express-did-auth: ', '') : String(error)
  return sentence.replace('npx express-did-auth-servers migrate', ownCommand('migrate'))
}

/** Loaded when it is named: a server on SQLite starts without. */
const loadPostgres = () => import('express-did-auth/stores/postgres')

/** How tables are brought up to date at the start. */
export const getMigrationMode = ({ DATABASE_MIGRATE }: ServerEnv): 'apply' | 'check' =>
  DATABASE_MIGRATE ? 'apply' : 'check'

/** A pool of connections, which asks nothing of the database yet. @throws StartError for an unreadable certificate */
export async function connectDatabase(env: ServerEnv, url: string, timeoutSeconds?: number): Promise<PostgresDatabase> {
  const { PostgresDatabase } = await loadPostgres()
  const { DATABASE_SSL_CA: file, DATABASE_POOL_SIZE: poolSize, DATABASE_PREPARE: prepare } = env
  const ca = file && startStep('Cannot read DATABASE_SSL_CA', () => readFileSync(file, 'utf8'))
  const options = { ...(ca !== undefined && { ca }), ...(timeoutSeconds !== undefined && { timeoutSeconds }) }
  return new PostgresDatabase(url, { poolSize, prepare, ...options })
}

/** @throws StartError when the URL is not one of Redis */
export async function connectRedis(url: string): Promise<QuotaStore & StoreLifecycle> {
  const { redisQuotas } = await import('express-did-auth/stores/redis')
  return startStep('Cannot use Redis (REDIS_URL)', () => redisQuotas(url))
}

/** @throws DidAuthError ERR_STORE while Redis is unavailable; StartError when it is one node of a cluster */
export async function pingRedis(quotas: StoreLifecycle): Promise<void> {
  await quotas.ping().catch((cause: unknown) => {
    if (getErrorCode(cause) === 'ERR_CONFIG') throwUnusable(cause, 'Redis (REDIS_URL)')
    throw new DidAuthError('ERR_STORE', { cause })
  })
}
