import { DidAuthError } from '../../errors.js'
import { isConnectionLost, postgresCode, READ_ONLY } from './postgres-error.js'
import type { PostgresClient, PostgresPool } from './postgres-pool.js'

/** Milliseconds by a monotonic clock, until which a verb may last. */
export type EndOfTime = number

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
    pool.on('error', ignore)
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
      isBroken = isConnectionLost(error)
      throw error
    } finally {
      client.release(isBroken)
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
      client.release(true)
    }
  }

  async #connect(endOfTime: EndOfTime): Promise<PostgresClient> {
    if (this.#waiting >= this.#maxWaiting) throw new DidAuthError('ERR_BUSY', { retryAfterSeconds: 1 })
    this.#waiting += 1
    const connecting = this.#pool.connect()
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

/** The time of a verb is over. */
export class ExpiredError extends Error {}

async function withinTime<T>(work: Promise<T>, endOfTime: EndOfTime): Promise<T> {
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

function ignore(): void {
  // Whoever waits is told by a rejection.
}
