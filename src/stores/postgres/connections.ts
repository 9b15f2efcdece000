import { FairQueue, type WaitingTask } from '../../adapters/fair-queue.js'
import { DidAuthError } from '../../errors.js'
import type { Client } from '../../ports.js'
import { currentClient, followClients } from '../request-client.js'
import { isConnectionLost, postgresCode, READ_ONLY } from './postgres-error.js'
import type { PostgresClient, PostgresPool } from './postgres-pool.js'

/** Milliseconds by a monotonic clock, until which a verb may last. */
export type EndOfTime = number

/** How often as long as one verb all verbs of a request may wait, so that it is answered or refused soon. */
const WAITS_A_REQUEST = 2

/** How long ago a verb ended well, where the database counts as busy, and not as unavailable. */
const AT_WORK_MILLISECONDS = 2_000
const NO_CLIENT = { network: '', isGone: () => false }

/** Pools that have a listener. One that was given may outlive many stores. */
const heard = new WeakSet<PostgresPool>()

/**
 * Lends connections of a pool: each for one verb, for no longer than its time, and to a bounded number of verbs that wait, for
 * a bounded time and in turn by client network: 400 connections of one network leave the others their share.
 *
 * A connection that did not answer in time is closed. What was asked of it may have been done; a request to cancel would
 * not change that.
 */
export class Connections {
  readonly #pool: PostgresPool
  readonly #maxConnecting: number
  readonly #queue: FairQueue<Waiting>
  readonly #waitingMilliseconds: number
  /** The count of read-only answers when a connection was made: older ones lead to a server that is no primary any more. */
  readonly #generations = new WeakMap<PostgresClient, number>()
  #generation = 0
  #connecting = 0
  /**
   * Requests that had or wanted a connection, and how many milliseconds they have waited: they come before others of their
   * network, so that what has begun ends soon.
   */
  readonly #begun = new WeakMap<Client, number>()
  #endedWellAt = -Infinity

  /** @param poolSize - as many verbs ask the pool at once, which may open connections for them; the others wait here */
  constructor(
    pool: PostgresPool,
    { poolSize, maxWaiting, waitingMilliseconds }: { poolSize: number; maxWaiting: number; waitingMilliseconds: number }
  ) {
    this.#pool = pool
    this.#maxConnecting = Math.min(poolSize, maxWaiting)
    this.#queue = new FairQueue(maxWaiting - this.#maxConnecting)
    this.#waitingMilliseconds = waitingMilliseconds
    followClients()
    // The pool drops an idle connection that breaks. Without a listener, the event would end the process.
    if (!heard.has(pool)) pool.on('error', ignore)
    heard.add(pool)
  }

  /** Verbs that wait for a connection. */
  get waiting(): number {
    return this.#connecting + this.#queue.size
  }

  /**
   * Lends a connection to `work`.
   *
   * @throws DidAuthError ERR_BUSY when too many wait, or it has waited too long for others; Error when there is none in time,
   *   or no answer
   */
  async use<T>(endOfTime: EndOfTime, work: (client: PostgresClient) => Promise<T>): Promise<T> {
    const client = await this.#take(endOfTime)
    let isBroken = true
    try {
      const result = await withinTime(work(client), endOfTime)
      isBroken = false
      this.#endedWellAt = performance.now()
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
    if (this.#connecting >= this.#maxConnecting) await this.#wait()
    else this.#connecting += 1
    const client = currentClient()
    if (client !== undefined && !this.#begun.has(client)) this.#begun.set(client, 0)
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
      let next = this.#queue.next()
      while (next?.isOver === true) next = this.#queue.next()
      // The next one asks in this one's place.
      if (next === undefined) this.#connecting -= 1
      else next.resume()
    }
  }

  #wait(): Promise<void> {
    const client = currentClient() ?? NO_CLIENT
    const waited = this.#begun.get(client) ?? 0
    const since = performance.now()
    const milliseconds = Math.min(this.#waitingMilliseconds, WAITS_A_REQUEST * this.#waitingMilliseconds - waited)
    const end = (): void => {
      clearTimeout(timer)
      if (client !== NO_CLIENT) this.#begun.set(client, waited + performance.now() - since)
    }
    let timer: NodeJS.Timeout | undefined
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        client,
        isOver: false,
        resume: () => {
          end()
          resolve()
        },
        refuse: () => {
          end()
          reject(busy())
        }
      }
      timer = setTimeout(() => {
        waiting.isOver = true
        end()
        const isAtWork = performance.now() - this.#endedWellAt < AT_WORK_MILLISECONDS
        reject(isAtWork ? busy() : new ConnectError(new ExpiredError('PostgreSQL did not answer in time')))
      }, milliseconds)
      this.#queue.add(waiting, this.#begun.has(client))
    })
  }
}

/** A verb in the queue; one whose time is over stays there until its turn comes. */
interface Waiting extends WaitingTask {
  isOver: boolean
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

function busy(): DidAuthError {
  return new DidAuthError('ERR_BUSY', { retryAfterSeconds: 1 })
}

function ignore(): void {
  // The promise that waits is rejected.
}
