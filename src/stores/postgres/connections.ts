import { FairQueue, type WaitingTask } from '../../adapters/fair-queue.js'
import { DidAuthError } from '../../errors.js'
import type { Client } from '../../ports.js'
import { within } from '../../time.js'
import { currentClient, followClients } from '../../current-request.js'
import { expired, isConnectionLost, postgresCode, READ_ONLY, storeError, WorkError } from './postgres-error.js'
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
 * Lends connections of a pool: each for one verb, for no longer than its time, and to a bounded number of verbs that
 * wait, for a bounded time and in turn by client network. One that did not answer in time is closed: what was asked may
 * have been done.
 */
export class Connections {
  readonly #pool: PostgresPool
  readonly #maxConnecting: number
  readonly #queue: FairQueue<Waiting>
  readonly #waitingMilliseconds: number
  /** The count of read-only answers when a connection was made: older ones lead to a former primary. */
  readonly #generations = new WeakMap<PostgresClient, number>()
  #generation = 0
  #connecting = 0
  /** Milliseconds that requests have waited which had a connection or want one: they come first, to end soon. */
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

  /** Verbs that wait. */
  get waiting(): number {
    return this.#connecting + this.#queue.size
  }

  /** @throws DidAuthError ERR_BUSY where too many wait, or for too long; Error without connection or answer in time */
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
    const client = currentClient() ?? NO_CLIENT
    const waited = this.#begun.get(client) ?? 0
    const since = performance.now()
    const milliseconds = Math.min(this.#waitingMilliseconds, WAITS_A_REQUEST * this.#waitingMilliseconds - waited)
    return new Promise((resolve, reject) => {
      const end = (): void => {
        clearTimeout(timer)
        if (client !== NO_CLIENT) this.#begun.set(client, waited + performance.now() - since)
      }
      const waiting: Waiting = {
        client,
        isOver: false,
        resume() {
          end()
          resolve()
        },
        refuse() {
          end()
          reject(busy())
        }
      }
      const timer = setTimeout(() => {
        waiting.isOver = true
        end()
        const isAtWork = performance.now() - this.#endedWellAt < AT_WORK_MILLISECONDS
        reject(isAtWork ? busy() : expired())
      }, milliseconds)
      this.#queue.add(waiting, this.#begun.has(client))
    })
  }
}

/** A verb in the queue; one whose time is over stays there until its turn comes. */
interface Waiting extends WaitingTask {
  isOver: boolean
}

export function withinTime<T>(work: Promise<T>, endOfTime: EndOfTime): Promise<T> {
  return within(endOfTime - performance.now(), work, expired)
}

/** Closes a connection, also a silent one: it does not wait for the answers of statements that were sent. */
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
