import { ConcurrencyLimiter } from '../../adapters/concurrency-limiter.js'
import { clientTracking, currentClient } from '../../current-client.js'
import { DidAuthError } from '../../errors.js'
import type { Client } from '../../ports.js'
import { isObject } from '../../protocol/json.js'
import { within } from '../../time.js'
import { computeDatabaseLimits } from '../../time-limits.js'
import { loadPackage } from '../load-package.js'
import { createTimeoutError, isConnectionLost, getPostgresCode, READ_ONLY, toStoreError } from './postgres-error.js'

/** A connection that a pool lends: a `PoolClient` of the package pg. */
export interface PostgresClient {
  /** Runs a statement; one with a `name` is prepared once per connection. */
  query(statement: {
    name?: string
    text: string
    values?: unknown[]
  }): Promise<{ readonly rows: unknown[]; readonly rowCount: number | null; readonly command: string }>
  /** Returns the connection to the pool, or closes it if it is broken. */
  release(isBroken?: boolean): void
  /** Adds a listener for the failure of an idle connection. */
  on(event: 'error', listener: (error: Error) => void): unknown
  /** Socket of a `Client` of pg. The client itself closes it only after the server has answered. */
  readonly connection?: { readonly stream?: { destroy(): unknown } }
}

/** A `Pool` of the package pg, or an object with the same members. */
export interface PostgresPool {
  /** Number of open connections, lent or idle. */
  readonly totalCount: number
  /** Number of open connections that nobody uses. */
  readonly idleCount: number
  /** Options of a `Pool` of pg. `max`: maximum number of connections. */
  readonly options?: { readonly max?: number }
  /** Lends a connection, and opens one if none is idle. */
  connect(): Promise<PostgresClient>
  /** Closes all connections after they are returned. */
  end(): Promise<void>
  /** Adds a listener for the failure of an idle connection. */
  on(event: 'error', listener: (error: Error) => void): unknown
}

/** Time after which a connection is replaced, so that a failover or a new address is noticed. */
const MAX_LIFETIME_SECONDS = 1_800

/** Opens a pool of pg. @throws TypeError for an invalid URL, without repeating the URL; Error if pg is not installed */
export function openPool(
  url: string,
  { poolSize, ca, prepare, timeoutSeconds }: { poolSize: number; ca?: string; prepare: boolean; timeoutSeconds: number }
): PostgresPool {
  const limits = computeDatabaseLimits(timeoutSeconds * 1000)
  const { Pool } = loadPackage('pg', 'postgres') as { Pool: new (options: object) => PostgresPool }
  // PgBouncer does not accept settings with a new connection.
  const settings = {
    statement_timeout: limits.databaseStatement,
    lock_timeout: limits.databaseLock,
    idle_in_transaction_session_timeout: limits.databaseIdleTransaction
  }
  return new Pool({
    connectionString: parseUrl(url, ca !== undefined),
    max: poolSize,
    connectionTimeoutMillis: limits.databaseConnect,
    maxLifetimeSeconds: MAX_LIFETIME_SECONDS,
    keepAlive: true,
    pipeline: true,
    fallback_application_name: 'express-did-auth',
    ...(ca !== undefined && { ssl: { ca } }),
    ...(prepare && settings)
  })
}

/** @throws TypeError if a source is neither a URL nor a pool */
export function assertPool(source: unknown): asserts source is PostgresPool {
  if (isObject(source) && ['connect', 'end', 'on'].every((name) => typeof source[name] === 'function')) return
  const received = source === undefined ? 'undefined' : typeof source
  throw new TypeError(
    `express-did-auth: a PostgreSQL store needs a URL or a Pool of the package pg, but received ${received}`
  )
}

/** Returns the URL, without `sslmode` if certificates are passed, because pg would otherwise ignore them. */
function parseUrl(text: string, hasCertificates: boolean): string {
  // The error of `new URL` would contain the text with its password.
  if (!URL.canParse(text) || !/^postgres(ql)?:/.test(text)) {
    throw new TypeError('express-did-auth: a PostgreSQL store needs a URL such as postgres://user@host/database')
  }
  if (!hasCertificates) return text
  const url = new URL(text)
  url.searchParams.delete('sslmode')
  return url.href
}

/** Time limit for all waits of one request together, as a multiple of the time limit for one verb's wait. */
const WAITS_PER_REQUEST = 2
/** Time since the last success within which the database counts as busy and not as unavailable. */
const RECENT_SUCCESS_MILLISECONDS = 2_000

/** Pools that have our error listener. A pool of the caller may outlive many stores. */
const poolsWithListener = new WeakSet<PostgresPool>()

/**
 * Lends connections of a pool, each for one verb and until its deadline. A bounded number of verbs wait, for a bounded
 * time; client networks take turns. A connection that misses the deadline is closed; its statement may have run.
 */
export class PooledConnections {
  readonly #pool: PostgresPool
  /** Verbs that request a connection from the pool, and those that wait until they may. */
  readonly #limiter: ConcurrencyLimiter
  readonly #waitingMilliseconds: number
  /** Generation of each connection. Connections of earlier generations may lead to a former primary. */
  readonly #generations = new WeakMap<PostgresClient, number>()
  /** Number of answers that the server is read-only. */
  #generation = 0
  /** Milliseconds that each request has waited. Requests with an entry have priority, so that they finish soon. */
  readonly #waitedMilliseconds = new WeakMap<Client, number>()
  #lastSuccessAt = -Infinity

  /** At most `poolSize` verbs may request a connection from the pool at once; the others wait. */
  constructor(pool: PostgresPool, bounds: Record<'poolSize' | 'maxWaiting' | 'waitingMilliseconds', number>) {
    const { poolSize, maxWaiting, waitingMilliseconds } = bounds
    this.#pool = pool
    const maxRunning = Math.min(poolSize, maxWaiting)
    const limits = { maxRunning, maxWaiting: maxWaiting - maxRunning, timeoutMilliseconds: waitingMilliseconds }
    // A network alone may use all connections: a verb is short, and the next turn is that of another network.
    this.#limiter = new ConcurrencyLimiter({ ...limits, networkShare: 1 })
    this.#waitingMilliseconds = waitingMilliseconds
    clientTracking.isOn = true
    // The pool drops an idle connection that breaks. Without a listener, the event would end the process.
    if (!poolsWithListener.has(pool)) pool.on('error', ignore)
    poolsWithListener.add(pool)
  }

  get waiting(): number {
    return this.#limiter.size
  }

  /**
   * Lends a connection to a verb until its work ends.
   * @throws DidAuthError ERR_BUSY if too many verbs wait, or one waits too long; ERR_STORE if the deadline passes; as
   * `work`
   */
  async use<T>(deadlineAt: number, work: (client: PostgresClient) => Promise<T>): Promise<T> {
    const client = await this.#take(deadlineAt)
    let result: T
    try {
      result = await limitTime(work(client), deadlineAt)
    } catch (error) {
      if (getPostgresCode(error) === READ_ONLY) this.#generation += 1
      if (isConnectionLost(error)) close(client)
      else client.release()
      throw error
    }
    this.#lastSuccessAt = performance.now()
    client.release()
    return result
  }

  /** Takes a connection of the current generation, and closes earlier ones that the pool lends. */
  async #take(deadlineAt: number): Promise<PostgresClient> {
    for (;;) {
      const client = await this.#connect(deadlineAt)
      if (!this.#generations.has(client)) {
        this.#generations.set(client, this.#generation)
        // A listener is required, as for the pool. The promise of the running statement is rejected in any case.
        client.on('error', ignore)
      }
      if (this.#generations.get(client) === this.#generation) return client
      close(client)
    }
  }

  async #connect(deadlineAt: number): Promise<PostgresClient> {
    const endTurn = await this.#waitForTurn()
    // A pool may throw instead of rejecting, for example if it cannot read a certificate.
    const connecting = Promise.resolve().then(() => this.#pool.connect())
    try {
      return await limitTime(connecting, deadlineAt)
    } catch (error) {
      // The connection may still open; return it to the pool.
      connecting.then((client) => client.release(), ignore)
      throw toStoreError(error)
    } finally {
      endTurn()
    }
  }

  /** Waits until the verb may request a connection. @returns a function that lets the next verb request one */
  async #waitForTurn(): Promise<() => void> {
    const client = currentClient.getStore()
    const waitedBefore = client && this.#waitedMilliseconds.get(client)
    const requestMilliseconds = WAITS_PER_REQUEST * this.#waitingMilliseconds
    const startedAt = performance.now()
    try {
      return await this.#limiter.acquire({
        network: client?.network,
        isFirst: waitedBefore !== undefined,
        timeoutMilliseconds: Math.min(this.#waitingMilliseconds, requestMilliseconds - (waitedBefore ?? 0)),
        createError: (isTimeout) => {
          const isBusy = !isTimeout || performance.now() - this.#lastSuccessAt < RECENT_SUCCESS_MILLISECONDS
          return isBusy ? new DidAuthError('ERR_BUSY', { retryAfterSeconds: 1 }) : createTimeoutError()
        }
      })
    } finally {
      const waited = performance.now() - startedAt
      if (client !== undefined) this.#waitedMilliseconds.set(client, (waitedBefore ?? 0) + waited)
    }
  }
}

/**
 * Rejects if the time of a verb ends before its work. The work continues.
 * @param deadlineAt - end of the time, in milliseconds by `performance.now`
 */
export function limitTime<T>(work: Promise<T>, deadlineAt: number): Promise<T> {
  return within(deadlineAt - performance.now(), work, createTimeoutError)
}

/** Closes a connection without waiting for the answers to statements, so that silent connections are closed too. */
function close(client: PostgresClient): void {
  client.release(true)
  client.connection?.stream?.destroy()
}

function ignore(): void {
  // The promise of the waiting caller is rejected.
}
