import { DidAuthError } from '../../errors.js'
import { isConnectionLost, postgresCode, READ_ONLY } from './postgres-error.js'
import type { PostgresClient, PostgresPool } from './postgres-pool.js'

/** Milliseconds by a monotonic clock, until which a verb may last. */
export type EndOfTime = number

/** Pools that have a listener. One that was given may outlive many stores. */
const heard = new WeakSet<PostgresPool>()

/**
 * Lends connections of a pool: each for one verb, for no longer than its time, and to a bounded number of verbs that wait.
 *
 * A connection that did not answer in time is closed. What was asked of it may have been done; a request to cancel would
 * not change that.
 */
export class Connections {
  readonly #pool: PostgresPool
  readonly #maxWaiting: number
  /** The count of read-only answers when a connection was made: older ones lead to a server that is no primary any more. */
  readonly #generations = new WeakMap<PostgresClient, number>()
  #generation = 0
  #waiting = 0

  constructor(pool: PostgresPool, maxWaiting: number) {
    this.#pool = pool
    this.#maxWaiting = maxWaiting
    // The pool drops an idle connection that breaks. Without a listener, the event would end the process.
    if (!heard.has(pool)) pool.on('error', ignore)
    heard.add(pool)
  }

  /** Verbs that wait for a connection. */
  get waiting(): number {
    return this.#waiting
  }

  /**
   * Lends a connection to `work`.
   *
   * @throws DidAuthError ERR_BUSY at once, when too many wait; Error when there is none in time, or no answer
   */
  async use<T>(endOfTime: EndOfTime, work: (client: PostgresClient) => Promise<T>): Promise<T> {
    const client = await this.#take(endOfTime)
    let isBroken = true
    try {
      const result = await withinTime(work(client), endOfTime)
      isBroken = false
      return result
    } catch (error) {
      if (postgresCode(error) === READ_ONLY) this.#generation += 1
      isBroken = !(error instanceof WorkError) && isConnectionLost(error)
      throw error
    } finally {
      if (isBroken) close(client)
      else client.release()
    }
  }

  async #take(endOfTime: EndOfTime): Promise<PostgresClient> {
    for (;;) {
      const client = await this.#connect(endOfTime)
      const generation = this.#generations.get(client)
      if (generation === this.#generation) return client
      if (generation === undefined) {
        this.#generations.set(client, this.#generation)
        // As for the pool: the statement in work is told as well.
        client.on('error', ignore)
        return client
      }
      close(client)
    }
  }

  async #connect(endOfTime: EndOfTime): Promise<PostgresClient> {
    if (this.#waiting >= this.#maxWaiting) throw new DidAuthError('ERR_BUSY', { retryAfterSeconds: 1 })
    this.#waiting += 1
    // A pool may throw instead of rejecting: where it cannot read a certificate.
    const connecting = Promise.resolve().then(() => this.#pool.connect())
    try {
      return await withinTime(connecting, endOfTime)
    } catch (error) {
      // It may come yet, and is then for others.
      connecting.then((client) => {
        client.release()
      }, ignore)
      throw new ConnectError(error)
    } finally {
      this.#waiting -= 1
    }
  }
}

/** There was no connection, so that nothing was asked. */
export class ConnectError extends Error {
  constructor(cause: unknown) {
    super('there is no connection to PostgreSQL', { cause })
  }
}

/** The work of a transaction threw, and the transaction was taken back: neither database nor connection failed. */
export class WorkError extends Error {
  constructor(cause: unknown) {
    super('the work of a transaction failed', { cause })
  }
}

/** The time of a verb is over. */
export class ExpiredError extends Error {}

/** @throws ExpiredError */
export async function withinTime<T>(work: Promise<T>, endOfTime: EndOfTime): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const expired = new Promise<never>((_, reject) => {
    const expire = (): void => {
      reject(new ExpiredError('PostgreSQL did not answer in time'))
    }
    timer = setTimeout(expire, Math.max(0, endOfTime - performance.now()))
  })
  try {
    return await Promise.race([work, expired])
  } finally {
    clearTimeout(timer)
  }
}

/** Sends a statement when the one before was answered, unless the connection takes several at once. */
export function inOrder<S, V, R>(
  client: PostgresClient & { pipeline?: unknown },
  run: (statement: S, values?: V) => Promise<R>
): (statement: S, values?: V) => Promise<R> {
  if (client.pipeline === true) return run
  let last: Promise<unknown> = Promise.resolve()
  return (statement, values) => {
    const answer = last.then(() => run(statement, values))
    last = answer.catch(() => undefined)
    return answer
  }
}

/** Closes a connection, also one that answers nothing any more: what was sent is not waited for. */
function close(client: PostgresClient): void {
  client.release(true)
  client.connection?.stream?.destroy()
}

function ignore(): void {
  // The promise that waits is rejected.
}
