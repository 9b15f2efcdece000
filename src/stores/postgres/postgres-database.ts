import { setTimeout as pause } from 'node:timers/promises'
import { ConcurrencyLimiter } from '../../adapters/concurrency-limiter.js'
import { clientTracking, currentClient } from '../../current-client.js'
import { DidAuthError } from '../../errors.js'
import type { Client } from '../../ports.js'
import { within } from '../../time.js'
import { computeDatabaseLimits, limitMilliseconds } from '../../time-limits.js'
import type { SqlQuery, SqlResult, SqlRow, SqlStatement } from '../sql/query.js'
import { createTimeoutError, getPostgresCode, isConflict, isConnectionLost } from './postgres-error.js'
import { READ_ONLY, toStoreError } from './postgres-error.js'
import { assertPool, openPool, type PostgresClient, type PostgresPool } from './postgres-pool.js'

/** Options of {@link PostgresDatabase}. */
export interface PostgresDatabaseOptions {
  /** Maximum number of connections, with a URL. All instances together: below `max_connections` − 10. Default 10. */
  poolSize?: number
  /** Whether statements are prepared. Set it to false behind PgBouncer. Default true. */
  prepare?: boolean
  /** Maximum number of verbs that wait for a connection. Further ones are refused at once. Default 200. */
  maxWaiting?: number
  /** CA certificates that verify the server's certificate, as PEM text, with a URL. They replace its `sslmode`. */
  ca?: string
  /** Time limit for a verb, in seconds. A verb waits for a connection for at most a quarter of it. Default 4. */
  timeoutSeconds?: number
}

/** Options for repeating a failed attempt. */
export interface RepeatOptions {
  /**
   * Whether the work may be done twice, even if others change data in between. Then it is repeated once after a lost
   * connection. Default false: a transaction is repeated only if the connection was lost before COMMIT was sent.
   */
  isRepeatable?: boolean
  /** SQLSTATEs after which the work is repeated, in addition to 40001, 40P01 and 55P03. */
  repeatOn?: readonly string[]
  /** Time limit in seconds. Default: `timeoutSeconds` of the database. */
  timeoutSeconds?: number
}

const MAX_RETRIES = 5
const [SHORTEST_PAUSE, LONGEST_PAUSE] = [5, 50]
/** Time limit for all waits of one request together, as a multiple of the time limit for one verb's wait. */
const WAITS_PER_REQUEST = 2
/** Time since the last success within which the database counts as busy and not as unavailable. */
const RECENT_SUCCESS_MILLISECONDS = 2_000

/** Pools that have our error listener. A pool of the caller may outlive many stores. */
const poolsWithListener = new WeakSet<PostgresPool>()

/**
 * A PostgreSQL database. Every statement and every transaction uses one connection and ends within `timeoutSeconds`,
 * including the wait for a connection. After a conflict with another transaction, it is run again.
 *
 * A bounded number of verbs wait for a connection, for a bounded time; client networks take turns. A connection that
 * misses the deadline is closed; its statement may have run.
 *
 * @throws DidAuthError from each method: ERR_STORE if the database is unavailable, with the reason as its cause;
 *   ERR_BUSY if too many verbs wait, or one waits longer than a quarter of `timeoutSeconds`
 */
export class PostgresDatabase {
  readonly #pool: PostgresPool
  readonly #isOwnPool: boolean
  readonly #timeoutSeconds: number
  readonly #waitingMilliseconds: number
  readonly #prepare: boolean
  /** Verbs that request a connection from the pool, and those that wait until they may. */
  readonly #limiter: ConcurrencyLimiter
  /** Milliseconds that each request has waited. Requests with an entry have priority, so that they finish soon. */
  readonly #waitedMilliseconds = new WeakMap<Client, number>()
  /** Generation of each connection. Connections of earlier generations may lead to a former primary. */
  readonly #generations = new WeakMap<PostgresClient, number>()
  /** Number of answers that the server is read-only. */
  #generation = 0
  #lastSuccessAt = -Infinity
  readonly #retries = new Map<string, number>()
  #closing: Promise<void> | undefined

  /**
   * @param source - a URL `postgres://user:password@host/database`, or a pool of pg, which stays open after `close`
   * @throws TypeError if the source is invalid; Error if the package pg is not installed
   */
  constructor(source: string | PostgresPool, options: PostgresDatabaseOptions = {}) {
    const {
      poolSize = 10,
      prepare = true,
      maxWaiting = 200,
      ca,
      timeoutSeconds = limitMilliseconds.databaseVerb / 1000
    } = options
    this.#timeoutSeconds = timeoutSeconds
    this.#prepare = prepare
    this.#isOwnPool = typeof source === 'string'
    if (typeof source === 'string') {
      this.#pool = openPool(source, { poolSize, prepare, timeoutSeconds, ...(ca !== undefined && { ca }) })
    } else {
      assertPool(source)
      this.#pool = source
    }
    // The pool drops an idle connection that breaks. Without a listener, the event would end the process.
    if (!poolsWithListener.has(this.#pool)) this.#pool.on('error', ignore)
    poolsWithListener.add(this.#pool)
    this.#waitingMilliseconds = computeDatabaseLimits(timeoutSeconds * 1000).databaseWait
    // At most as many verbs as there are connections may request one from the pool at once; the others wait.
    const maxRunning = Math.min(this.#pool.options?.max ?? poolSize, maxWaiting)
    const limits = { maxRunning, maxWaiting: maxWaiting - maxRunning, timeoutMilliseconds: this.#waitingMilliseconds }
    // A network alone may use all connections: a verb is short, and the next turn is that of another network.
    this.#limiter = new ConcurrencyLimiter({ ...limits, networkShare: 1 })
    clientTracking.isOn = true
  }

  /** Runs one statement in its own transaction. */
  query(statement: SqlStatement, values: readonly unknown[] = [], options: RepeatOptions = {}): Promise<SqlResult> {
    const isRepeatable = (): boolean => options.isRepeatable === true
    return this.#attempt((client, isRepeat) => this.#run(client, statement, values, isRepeat), isRepeatable, options)
  }

  /**
   * Runs statements in one READ COMMITTED transaction, which is repeated from the beginning after a conflict. A
   * statement may be sent before the previous one is answered. `work` must change only the database, because each
   * repetition calls it again. If it throws, the transaction is rolled back, and this method throws the same error.
   */
  async transaction<T>(work: (query: SqlQuery) => Promise<T>, options: RepeatOptions = {}): Promise<T> {
    let isCommitSent = false
    const isRepeatable = (): boolean => options.isRepeatable === true || !isCommitSent
    const outcome = await this.#attempt(
      async (client, isRepeat) => {
        const failures: unknown[] = []
        const run = sendInOrder(client, (statement, values = []) =>
          this.#run(client, statement, values, isRepeat).catch((error: unknown) => {
            failures.push(error)
            throw error
          })
        )
        // After a failure, branches of the work that are still running must send nothing.
        let hasEnded = false
        const query: SqlQuery = async (statement, values) => {
          if (hasEnded || failures.length > 0)
            throw (failures[0] as Error | undefined) ?? new Error('the transaction has ended')
          return run(statement, values)
        }
        try {
          const begun = run({ text: 'BEGIN ISOLATION LEVEL READ COMMITTED' })
          const [, result] = await Promise.all([begun, work(query)])
          hasEnded = isCommitSent = true
          await run({ text: 'COMMIT' })
          return { result }
        } catch (error) {
          hasEnded = true
          // Statements that were sent together fail together. Only the first error names the cause.
          const [failure] = failures
          const isThrownByWork = !failures.includes(error)
          if (isThrownByWork || !isConnectionLost(failure)) await run({ text: 'ROLLBACK' })
          if (isThrownByWork) return { thrown: error }
          throw failure
        }
      },
      isRepeatable,
      options
    )
    if ('thrown' in outcome) throw outcome.thrown
    return outcome.result
  }

  /**
   * Waits at most the time of a verb for work that may take longer, such as a migration by another instance.
   * @throws DidAuthError ERR_STORE if the time has passed, while the work continues, or if the work fails otherwise
   */
  async inTime<T>(work: Promise<T>): Promise<T> {
    return limitTime(work, performance.now() + this.#timeoutSeconds * 1000).catch((error: unknown) => {
      throw toStoreError(error)
    })
  }

  /** Closes the pool if it was created from a URL. */
  async close(): Promise<void> {
    if (this.#isOwnPool) await (this.#closing ??= this.#pool.end())
  }

  /** Numbers of connections, of waiting verbs, and of repetitions by SQLSTATE. */
  get stats(): { total: number; idle: number; waiting: number; retriesByCode: Record<string, number> } {
    const { totalCount: total, idleCount: idle } = this.#pool
    return { total, idle, waiting: this.#limiter.size, retriesByCode: Object.fromEntries(this.#retries) }
  }

  /** @param isRepeatable - as the option. It is called after a failure, because the progress may decide */
  async #attempt<T>(
    work: (client: PostgresClient, isRepeat: boolean) => Promise<T>,
    isRepeatable: () => boolean,
    { repeatOn = [], timeoutSeconds = this.#timeoutSeconds }: RepeatOptions
  ): Promise<T> {
    const deadlineAt = performance.now() + timeoutSeconds * 1000
    let isRepeat = false
    for (let retries = 0; ; retries += 1) {
      try {
        return await this.#use(deadlineAt, (client) => work(client, isRepeat))
      } catch (error) {
        // Too many verbs wait, there is no connection, or the time is over. Another attempt would not help.
        if (error instanceof DidAuthError) throw error
        // A read-only server has changed nothing, and the next connection may lead to the new primary.
        const mayRepeat: boolean = !isRepeat && (isRepeatable() || getPostgresCode(error) === READ_ONLY)
        const isLost: boolean = isConnectionLost(error) && mayRepeat
        const isRetried = retries < MAX_RETRIES && (isLost || isConflict(error, repeatOn))
        if (!isRetried || performance.now() >= deadlineAt) throw toStoreError(error)
        isRepeat = isRepeat || isLost
        const code = getPostgresCode(error) || 'connection lost'
        this.#retries.set(code, (this.#retries.get(code) ?? 0) + 1)
        if (!isLost) await pause(SHORTEST_PAUSE + Math.random() * (LONGEST_PAUSE - SHORTEST_PAUSE))
      }
    }
  }

  /**
   * Lends a connection to work until it ends.
   * @throws DidAuthError ERR_BUSY if too many verbs wait, or one waits too long; ERR_STORE if the deadline passes; as
   * `work`
   */
  async #use<T>(deadlineAt: number, work: (client: PostgresClient) => Promise<T>): Promise<T> {
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
    const connecting = (async () => this.#pool.connect())()
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

  async #run(client: PostgresClient, { name, text }: SqlStatement, values: readonly unknown[], isRepeat: boolean) {
    const isNamed = this.#prepare && name !== undefined
    const { rows, rowCount, command } = await client.query({ ...(isNamed && { name }), text, values: [...values] })
    // COMMIT rolls a transaction back if one of its statements has failed.
    if (text === 'COMMIT' && command !== 'COMMIT') throw new Error('PostgreSQL rolled the transaction back')
    return { rows: rows as SqlRow[], rowCount: rowCount ?? 0, isRepeat }
  }
}

/** Creates a query whose statements are transactions. Before the first one, `open` prepares the tables. */
export function createStatementQuery(
  database: PostgresDatabase,
  open: () => Promise<unknown>,
  options: RepeatOptions
): SqlQuery {
  let isOpen = false
  return async (statement, values) => {
    if (!isOpen) await database.inTime(open())
    isOpen = true
    return database.query(statement, values, options)
  }
}

/** Sends each statement only after the previous one is answered, unless the connection is pipelined. */
function sendInOrder(client: PostgresClient & { pipeline?: unknown }, run: SqlQuery): SqlQuery {
  if (client.pipeline === true) return run
  let last: Promise<unknown> = Promise.resolve()
  return (statement, values) => {
    const answer = last.then(() => run(statement, values))
    last = answer.catch(() => undefined)
    return answer
  }
}

/**
 * Rejects if the time of a verb ends before its work. The work continues.
 * @param deadlineAt - end of the time, in milliseconds by `performance.now`
 */
function limitTime<T>(work: Promise<T>, deadlineAt: number): Promise<T> {
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
