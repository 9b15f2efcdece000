import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { combineStores, DidAuthError, type QuotaStore, type Store, type StoreLifecycle } from 'express-did-auth'
import type { PostgresDatabase } from 'express-did-auth/stores/postgres'
import type { ServerEnv } from '../config/read-env.js'
import { codeOf, reasonOf, StartError } from '../config/startup-error.js'
import { ServerError } from '../http/server-error.js'
import {
  clockCheck,
  FRESH_WRITE_MILLISECONDS,
  steadyClock,
  type Dependency,
  type ReferenceClock
} from '../observability/health-checks.js'
import type { Metrics } from '../observability/metrics.js'
import type { ContentMaintenance } from './content-store.js'
import type { S3ObjectStore } from './s3/s3-object-store.js'
import { usedPercentOf, type UsedPercent } from './disk-space.js'
import {
  dataFolder,
  migrateSessions,
  openDatabase,
  openObjects,
  openPostgresContents,
  openPostgresStore,
  openQuotas,
  openSqliteStore,
  timeOf,
  untilAvailable,
  type RemoteEngine
} from './open-engines.js'
import { openContentStore, type OpenContentStore } from './sqlite/open-content-store.js'

/**
 * How far the clock of an instance may be from the database's, at least: a clock that is further off than the grace of
 * refreshes takes the tabs of one user that refresh at two instances for theft.
 */
const MIN_SKEW_SECONDS = 10

/** A server's store of sessions, used challenges and quotas. */
export interface OpenedStore {
  readonly store: Store
  /** The part that lies in the database. */
  readonly durable: Pick<Store, 'ping'>
}

/** What the environment names beside `DATA_DIR`; absent parts are SQLite's and files'. */
interface NamedEngines {
  readonly database?: PostgresDatabase
  readonly quotas?: QuotaStore & StoreLifecycle
}

/**
 * The engines that keep the state of the servers of a process: SQLite and files in `DATA_DIR`, or what the environment
 * names.
 */
export class Engines {
  readonly #named: NamedEngines
  readonly #clock: { name: string; read: ReferenceClock }
  readonly #maxSkewSeconds: number
  /** Where relay and vault have large content. */
  readonly #objects = new Map<string, S3ObjectStore>()

  private constructor(named: NamedEngines, { REFRESH_REUSE_GRACE_SECONDS: graceSeconds = 0 }: ServerEnv) {
    const { database } = named
    this.#named = named
    this.#maxSkewSeconds = Math.max(MIN_SKEW_SECONDS, graceSeconds)
    this.#clock =
      database === undefined
        ? { name: 'the time that has passed', read: steadyClock() }
        : { name: 'the database', read: () => timeOf(database) }
  }

  /** @throws StartError when an engine cannot be used as it is set up; one that is unavailable is opened as well */
  static async open(env: ServerEnv): Promise<Engines> {
    const database = env.DATABASE_URL === undefined ? undefined : await openDatabase(env, env.DATABASE_URL)
    const quotas = env.REDIS_URL === undefined ? undefined : await openQuotas(env.REDIS_URL)
    return new Engines({ ...(database && { database }), ...(quotas && { quotas }) }, env)
  }

  /** Whether the own storage is reached over the network, and may come back while a server runs. */
  get areElsewhere(): boolean {
    return this.#named.database !== undefined || this.#named.quotas !== undefined
  }

  /**
   * Waits until database and Redis answer, with the tables of sessions up to date.
   *
   * @param onUnavailable - called once for each of them that is unavailable
   * @throws StartError when one cannot be used as it is set up
   */
  async whenAvailable(env: ServerEnv, onUnavailable: (engine: RemoteEngine, reason: string) => void): Promise<void> {
    const { database, quotas } = this.#named
    const engines: RemoteEngine[] = []
    if (database !== undefined) {
      engines.push({ name: 'database', variable: 'DATABASE_URL', ask: () => migrateSessions(database, env) })
    }
    if (quotas !== undefined) engines.push({ name: 'redis', variable: 'REDIS_URL', ask: () => askQuotas(quotas) })
    for (const engine of engines) {
      await untilAvailable(engine, (reason) => {
        onUnavailable(engine, reason)
      })
    }
  }

  /** @throws StartError */
  async openStore(env: ServerEnv): Promise<OpenedStore> {
    const { database, quotas } = this.#named
    const durable =
      database === undefined ? openSqliteStore(env) : await openPostgresStore(database, env.DATABASE_MIGRATE)
    if (quotas === undefined) return { store: durable, durable }
    // The servers of a process share the connection to Redis.
    const shared = {
      chargeQuota: quotas.chargeQuota.bind(quotas),
      ping: () => quotas.ping(),
      close: async () => undefined
    }
    return { store: combineStores({ sessions: durable, challengeUses: durable, quotas: shared }), durable }
  }

  /**
   * Opens what relay or vault store.
   *
   * @throws StartError
   */
  async openContents(env: ServerEnv): Promise<OpenContentStore> {
    const folder = dataFolder(env)
    const objects = await openObjects(env)
    if (objects !== undefined) this.#objects.set(env.name, objects)
    if (this.#named.database !== undefined) return openPostgresContents(this.#named.database, env, objects)
    const database = `${env.name}.db`
    try {
      return await openContentStore({
        folder,
        database,
        ...(objects && { objects }),
        // The relay does not wait for the disk: the loss of power may cost its last files.
        isDurable: env.name !== 'relay',
        tracksPins: env.IPFS_API_URL !== undefined
      })
    } catch (error) {
      if (error instanceof StartError) throw error
      const reason = reasonOf(error instanceof ServerError ? (error.cause ?? error) : error)
      throw new StartError(`Cannot use ${join(folder, database)} (DATA_DIR): ${reason}`, { cause: error })
    }
  }

  /** @throws StartError when relay or vault never stored anything here, so that an operator's command is at the wrong place */
  assertContents(env: ServerEnv): void {
    const file = join(dataFolder(env), `${env.name}.db`)
    if (this.#named.database === undefined && !existsSync(file))
      throw new StartError(`There is no ${env.name} in ${file} (DATA_DIR)`)
  }

  /** What `/ready` asks of a server's own storage, and of its clock. */
  dependenciesOf(
    { durable }: Pick<OpenedStore, 'durable'>,
    { name, contents }: { name: string; contents?: Pick<ContentMaintenance, 'probe'> | undefined }
  ): Dependency[] {
    const objects = this.#objects.get(name)
    const { database, quotas } = this.#named
    const isShared = database !== undefined
    const own = { isNeeded: true, freshMilliseconds: FRESH_WRITE_MILLISECONDS }
    const check = (): Promise<unknown> => Promise.all([durable.ping(), contents?.probe()]).catch(ignoreBusy)
    // A clock that jumped under a server alone differs from no other.
    const clock = {
      isNeeded: isShared,
      failure: 'wrong' as const,
      check: clockCheck(this.#clock, this.#maxSkewSeconds)
    }
    return [
      { name: isShared ? 'database' : 'store', ...own, check },
      ...(quotas === undefined ? [] : [{ name: 'redis', ...own, check: () => quotas.ping() }]),
      ...(objects === undefined ? [] : [{ name: 'objects', ...own, check: () => objects.ping() }]),
      { name: 'clock', ...clock }
    ]
  }

  /** How much of the disk is used that content lies on; 0 where it lies elsewhere. */
  usedPercent(env: ServerEnv): UsedPercent {
    return this.#named.database === undefined ? usedPercentOf(dataFolder(env)) : () => Promise.resolve(0)
  }

  /** Shows the connections of the database among the metrics. */
  watch(metrics: Metrics): void {
    const { database } = this.#named
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
    await Promise.all([this.#named.database?.close(), this.#named.quotas?.close()])
  }
}

/** @throws DidAuthError ERR_STORE */
async function askQuotas(quotas: StoreLifecycle): Promise<void> {
  await quotas.ping().catch((cause: unknown) => {
    throw new DidAuthError('ERR_STORE', { cause })
  })
}

/** A pool with many waiting is at work: taken out of service, it would only leave its load to the others. */
function ignoreBusy(error: unknown): void {
  for (let cause = error; cause instanceof Error; cause = cause.cause) if (codeOf(cause) === 'ERR_BUSY') return
  throw error
}
