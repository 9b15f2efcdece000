import { setTimeout as pause } from 'node:timers/promises'
import { DidAuthError } from '../../errors.js'
import { isConflict, isConnectionLost, getPostgresCode, READ_ONLY, storeError } from './postgres-error.js'
import type { SqlQuery, SqlResult, SqlRow, SqlStatement } from '../sql/query.js'
import { assertPool, Connections, openPool, limitTime, type PostgresClient, type PostgresPool } from './connections.js'

/** Options of the connection to a database. */
export interface PostgresDatabaseOptions {
  /** Most connections, where a URL is given. Default 10. All instances together stay below `max_connections` − 10. */
  poolSize?: number
  /** Whether statements are prepared. Default true; false behind PgBouncer. */
  prepare?: boolean
  /** Verbs that may wait for a connection; more are refused at once. Default 200. */
  maxWaiting?: number
  /** Certificates of the authority that signed the server's, as PEM text, where a URL is given. */
  ca?: string
  /** Seconds after which a verb is given up; a quarter of it is how long a verb waits for others. Default 4. */
  timeoutSeconds?: number
}

/** Options for repeating a failed attempt. */
export interface RepeatOptions {
  /**
   * Whether it may be done twice, also when others have changed something in between: it is repeated once after a lost
   * connection. Default false: a transaction is repeated only if the connection was lost before its COMMIT was sent.
   */
  isRepeatable?: boolean
  /** SQLSTATEs on which it is repeated in addition to 40001, 40P01 and 55P03. */
  repeatOn?: readonly string[]
  /** Seconds that it may last, instead of the `timeoutSeconds` of the database. */
  timeoutSeconds?: number
}

/** Options whose `isRepeatable` is asked after a failure, since it may depend on how far the work came. */
type AttemptOptions = Omit<RepeatOptions, 'isRepeatable'> & { readonly isRepeatable: () => boolean }

const MAX_RETRIES = 5
const [SHORTEST_PAUSE, LONGEST_PAUSE] = [5, 50]

/**
 * A database of PostgreSQL. Every statement and every transaction takes one connection, once, and has ended after
 * `timeoutSeconds` at the latest, waiting included. What was refused for the sake of another transaction is run again.
 *
 * @throws DidAuthError from each method: ERR_STORE when the database is unavailable, with the reason as its cause;
 *   ERR_BUSY when too many wait, or for longer than a quarter of `timeoutSeconds`
 */
export class PostgresDatabase {
  readonly #pool: PostgresPool
  readonly #isOwnPool: boolean
  readonly #connections: Connections
  readonly #timeoutSeconds: number
  readonly #prepare: boolean
  readonly #retries = new Map<string, number>()
  #closing: Promise<void> | undefined

  /**
   * @param source - a URL `postgres://user:password@host/database`, or a pool of pg, which stays open after `close`
   * @throws TypeError or Error when the URL is none, or the package pg is not installed
   */
  constructor(source: string | PostgresPool, options: PostgresDatabaseOptions = {}) {
    const { poolSize = 10, prepare = true, maxWaiting = 200, ca, timeoutSeconds = 4 } = options
    this.#timeoutSeconds = timeoutSeconds
    this.#prepare = prepare
    this.#isOwnPool = typeof source === 'string'
    if (typeof source === 'string') {
      this.#pool = openPool(source, { poolSize, prepare, timeoutSeconds, ...(ca !== undefined && { ca }) })
    } else {
      assertPool(source)
      this.#pool = source
    }
    const waitingMilliseconds = timeoutSeconds * 250
    const connectionCount = this.#pool.options?.max ?? poolSize
    this.#connections = new Connections(this.#pool, { poolSize: connectionCount, maxWaiting, waitingMilliseconds })
  }

  /** Runs one statement in a transaction of its own. */
  query(statement: SqlStatement, values: readonly unknown[] = [], options: RepeatOptions = {}): Promise<SqlResult> {
    const isRepeatable = (): boolean => options.isRepeatable === true
    const work = (client: PostgresClient, isRepeat: boolean): Promise<SqlResult> =>
      this.#run(client, statement, values, isRepeat)
    return this.#attempt(work, { ...options, isRepeatable })
  }

  /**
   * Runs statements in one transaction of READ COMMITTED, which is repeated from its start on a conflict. Statements
   * that need no answer of the one before may be sent without waiting for it. `work` changes nothing but the database,
   * because each repetition calls it; what it throws takes the transaction back, and is thrown as it is.
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
        // After a failure or a refusal, branches of the work that are still under way send nothing.
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
          // Statements that were sent together fail together; only the first of them says why.
          const [failure] = failures
          const isOfWork = !failures.includes(error)
          if (isOfWork || !isConnectionLost(failure)) await run({ text: 'ROLLBACK' })
          if (isOfWork) return { thrown: error }
          throw failure
        }
      },
      { ...options, isRepeatable }
    )
    if ('thrown' in outcome) throw outcome.thrown
    return outcome.result
  }

  /**
   * Waits for work that may last longer than a verb, such as a migration by another instance.
   * @throws DidAuthError ERR_STORE when the time of a verb is over, and the work continues; as the work
   */
  async inTime<T>(work: Promise<T>): Promise<T> {
    return limitTime(work, performance.now() + this.#timeoutSeconds * 1000).catch((error: unknown) => {
      throw storeError(error)
    })
  }

  /** Closes its own pool. */
  async close(): Promise<void> {
    if (this.#isOwnPool) await (this.#closing ??= this.#pool.end())
  }

  /** Connections, verbs that wait for one, and how often what was repeated, by its SQLSTATE. */
  get stats(): { total: number; idle: number; waiting: number; retriesByCode: Record<string, number> } {
    const { totalCount: total, idleCount: idle } = this.#pool
    return { total, idle, waiting: this.#connections.waiting, retriesByCode: Object.fromEntries(this.#retries) }
  }

  async #attempt<T>(
    work: (client: PostgresClient, isRepeat: boolean) => Promise<T>,
    { isRepeatable, repeatOn = [], timeoutSeconds = this.#timeoutSeconds }: AttemptOptions
  ): Promise<T> {
    const endOfTime = performance.now() + timeoutSeconds * 1000
    let isRepeat = false
    for (let retries = 0; ; retries += 1) {
      try {
        return await this.#connections.use(endOfTime, (client) => work(client, isRepeat))
      } catch (error) {
        // Too many wait, and another attempt would be one more; or there is no connection, or no time.
        if (error instanceof DidAuthError) throw error
        const isHarmless: boolean = !isRepeat && (isRepeatable() || getPostgresCode(error) === READ_ONLY)
        const isLost: boolean = isConnectionLost(error) && isHarmless
        const isRetried = retries < MAX_RETRIES && (isLost || isConflict(error, repeatOn))
        if (!isRetried || performance.now() >= endOfTime) throw storeError(error)
        isRepeat = isRepeat || isLost
        const code = getPostgresCode(error) || 'connection lost'
        this.#retries.set(code, (this.#retries.get(code) ?? 0) + 1)
        if (!isLost) await pause(SHORTEST_PAUSE + Math.random() * (LONGEST_PAUSE - SHORTEST_PAUSE))
      }
    }
  }

  async #run(client: PostgresClient, { name, text }: SqlStatement, values: readonly unknown[], isRepeat: boolean) {
    const isNamed = this.#prepare && name !== undefined
    const { rows, rowCount, command } = await client.query({ ...(isNamed && { name }), text, values: [...values] })
    // A transaction in which a statement failed is rolled back by COMMIT.
    if (text === 'COMMIT' && command !== 'COMMIT') throw new Error('PostgreSQL rolled the transaction back')
    return { rows: rows as SqlRow[], rowCount: rowCount ?? 0, isRepeat }
  }
}

/** Sends a statement when the one before was answered, unless the connection is pipelined. */
function sendInOrder(client: PostgresClient & { pipeline?: unknown }, run: SqlQuery): SqlQuery {
  if (client.pipeline === true) return run
  let last: Promise<unknown> = Promise.resolve()
  return (statement, values) => {
    const answer = last.then(() => run(statement, values))
    last = answer.catch(() => undefined)
    return answer
  }
}
