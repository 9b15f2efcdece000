import { FairQueue, type WaitingTask } from '../../adapters/fair-queue.js'
import { getCurrentClient, followClients } from '../../current-request.js'
import { DidAuthError } from '../../errors.js'
import type { Client } from '../../ports.js'
import { isObject } from '../../protocol/json.js'
import { within } from '../../time.js'
import { loadPackage } from '../load-package.js'
import { createExpiredError, isConnectionLost, getPostgresCode, READ_ONLY, storeError } from './postgres-error.js'

/** A connection, as a pool lends it: a `PoolClient` of the package pg. */
export interface PostgresClient {
  query(statement: {
    name?: string
    text: string
    values?: unknown[]
  }): Promise<{ readonly rows: unknown[]; readonly rowCount: number | null; readonly command: string }>
  /** Gives the connection back, or closes it. */
  release(isBroken?: boolean): void
  on(event: 'error', listener: (error: Error) => void): unknown
  /** The socket of a `Client` of pg, which closes it only once the server has answered. */
  readonly connection?: { readonly stream?: { destroy(): unknown } }
}

/** A `Pool` of the package pg, or anything of its form. */
export interface PostgresPool {
  readonly totalCount: number
  readonly idleCount: number
  /** A `Pool` of pg says how many connections it has at most. */
  readonly options?: { readonly max?: number }
  connect(): Promise<PostgresClient>
  end(): Promise<void>
  on(event: 'error', listener: (error: Error) => void): unknown
}

/** After this time a connection is replaced, so that a failover or a new address is noticed. */
const MAX_LIFETIME_SECONDS = 1_800

/** @throws TypeError when `url`, which no error repeats, is none of PostgreSQL; Error when pg is not installed */
export function openPool(
  url: string,
  { poolSize, ca, prepare, timeoutSeconds }: { poolSize: number; ca?: string; prepare: boolean; timeoutSeconds: number }
): PostgresPool {
  const milliseconds = timeoutSeconds * 1000
  const { Pool } = loadPackage('pg', 'postgres') as { Pool: new (options: object) => PostgresPool }
  // PgBouncer accepts no settings with a new connection.
  const settings = {
    statement_timeout: milliseconds * 0.75,
    lock_timeout: milliseconds / 2,
    idle_in_transaction_session_timeout: milliseconds * 2.5
  }
  return new Pool({
    connectionString: parseUrl(url, ca !== undefined),
    max: poolSize,
    connectionTimeoutMillis: milliseconds / 2,
    maxLifetimeSeconds: MAX_LIFETIME_SECONDS,
    keepAlive: true,
    pipeline: true,
    fallback_application_name: 'express-did-auth',
    ...(ca !== undefined && { ssl: { ca } }),
    ...(prepare && settings)
  })
}

/** @throws TypeError where a source is neither a URL nor a pool */
export function assertPool(source: unknown): asserts source is PostgresPool {
  if (isObject(source) && ['connect', 'end', 'on'].every((name) => typeof source[name] === 'function')) return
  const received = source === undefined ? 'undefined' : typeof source
  throw new TypeError(
    `express-did-auth: a PostgreSQL store needs a URL or a Pool of the package pg, and received ${received}`
  )
}

/** Removes `sslmode` from a URL if certificates are given, because pg would ignore them for it. */
function parseUrl(text: string, hasCertificates: boolean): string {
  // The error of `new URL` would repeat the text, password and all.
  if (!URL.canParse(text) || !/^postgres(ql)?:/.test(text)) {
    throw new TypeError('express-did-auth: a PostgreSQL store needs a URL such as postgres://user@host/database')
  }
  if (!hasCertificates) return text
  const url = new URL(text)
  url.searchParams.delete('sslmode')
  return url.href
}

/** Limit of the wait of all verbs of a request, as a multiple of one verb's, so that it is answered soon. */
const WAITS_A_REQUEST = 2
/** Time since the last success within which the database counts as busy, and not as unavailable. */
const AT_WORK_MILLISECONDS = 2_000
const NO_CLIENT = { network: '', isGone: () => false }

/** Pools that have a listener. One that was given may outlive many stores. */
const heard = new WeakSet<PostgresPool>()

/**
 * Lends connections of a pool, each for one verb and its time. A bounded number of verbs wait, for a bounded time and
 * in turn by client network. A connection without answer in time is closed: what was asked may have been done.
 */
export class Connections {
  readonly #pool: PostgresPool
  readonly #maxConnecting: number
  readonly #queue: FairQueue<Waiting>
  readonly #waitingMilliseconds: number
  /** The read-only answers until a connection was made: older ones lead to a former primary. */
  readonly #generations = new WeakMap<PostgresClient, number>()
  #generation = 0
  #connecting = 0
  /** Milliseconds that requests have waited. Those that had a connection, or want one, are first, to end soon. */
  readonly #begun = new WeakMap<Client, number>()
  #endedWellAt = -Infinity

  /** Lets at most `poolSize` verbs ask the pool at once, which may open connections; the others wait here. */
  constructor(pool: PostgresPool, bounds: Record<'poolSize' | 'maxWaiting' | 'waitingMilliseconds', number>) {
    const { poolSize, maxWaiting, waitingMilliseconds } = bounds
    this.#pool = pool
    this.#maxConnecting = Math.min(poolSize, maxWaiting)
    this.#queue = new FairQueue(maxWaiting - this.#maxConnecting)
    this.#waitingMilliseconds = waitingMilliseconds
    followClients()
    // The pool drops an idle connection that breaks. Without a listener, the event would end the process.
    if (!heard.has(pool)) pool.on('error', ignore)
    heard.add(pool)
  }

  get waiting(): number {
    return this.#connecting + this.#queue.size
  }

  /** @throws DidAuthError ERR_BUSY where too many wait, or for too long; Error without connection or answer in time */
  async use<T>(endOfTime: number, work: (client: PostgresClient) => Promise<T>): Promise<T> {
    const client = await this.#take(endOfTime)
    let result: T
    try {
      result = await limitTime(work(client), endOfTime)
    } catch (error) {
      if (getPostgresCode(error) === READ_ONLY) this.#generation += 1
      if (isConnectionLost(error)) close(client)
      else client.release()
      throw error
    }
    this.#endedWellAt = performance.now()
    client.release()
    return result
  }

  async #take(endOfTime: number): Promise<PostgresClient> {
    for (;;) {
      const client = await this.#connect(endOfTime)
      if (!this.#generations.has(client)) {
        this.#generations.set(client, this.#generation)
        // A listener is required, as for the pool. The promise of the running statement is rejected as well.
        client.on('error', ignore)
      }
      if (this.#generations.get(client) === this.#generation) return client
      close(client)
    }
  }

  async #connect(endOfTime: number): Promise<PostgresClient> {
    if (this.#connecting >= this.#maxConnecting) await this.#wait()
    else this.#connecting += 1
    const client = getCurrentClient()
    if (client !== undefined && !this.#begun.has(client)) this.#begun.set(client, 0)
    // A pool may throw instead of rejecting: where it cannot read a certificate.
    const connecting = Promise.resolve().then(() => this.#pool.connect())
    try {
      return await limitTime(connecting, endOfTime)
    } catch (error) {
      // The connection may still open; return it to the pool.
      connecting.then((client) => client.release(), ignore)
      throw storeError(error)
    } finally {
      let next = this.#queue.next()
      while (next?.isOver === true) next = this.#queue.next()
      // The next one asks in this one's place.
      if (next === undefined) this.#connecting -= 1
      else next.resume()
    }
  }

  #wait(): Promise<void> {
    const client = getCurrentClient() ?? NO_CLIENT
    const waited = this.#begun.get(client) ?? 0
    const since = performance.now()
    const milliseconds = Math.min(this.#waitingMilliseconds, WAITS_A_REQUEST * this.#waitingMilliseconds - waited)
    return new Promise((resolve, reject) => {
      const ending = (settle: () => void) => (): void => {
        clearTimeout(timer)
        if (client !== NO_CLIENT) this.#begun.set(client, waited + performance.now() - since)
        settle()
      }
      const refuse = ending(() => reject(createBusyError()))
      const waiting: Waiting = { client, isOver: false, resume: ending(resolve), refuse }
      const expire = (): void => {
        waiting.isOver = true
        const isAtWork = performance.now() - this.#endedWellAt < AT_WORK_MILLISECONDS
        reject(isAtWork ? createBusyError() : createExpiredError())
      }
      const timer = setTimeout(ending(expire), milliseconds)
      this.#queue.add(waiting, this.#begun.has(client))
    })
  }
}

/** A verb in the queue. One whose time is over stays there until its turn. */
interface Waiting extends WaitingTask {
  isOver: boolean
}

/** @param endOfTime - milliseconds by `performance.now`, until which a verb may last */
export function limitTime<T>(work: Promise<T>, endOfTime: number): Promise<T> {
  return within(endOfTime - performance.now(), work, createExpiredError)
}

/** Closes a connection, also a silent one: it does not wait for the answers of statements that were sent. */
function close(client: PostgresClient): void {
  client.release(true)
  client.connection?.stream?.destroy()
}

function createBusyError(): DidAuthError {
  return new DidAuthError('ERR_BUSY', { retryAfterSeconds: 1 })
}

function ignore(): void {
  // The promise that waits is rejected.
}
