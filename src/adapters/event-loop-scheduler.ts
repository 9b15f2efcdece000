import { DidAuthError } from '../errors.js'
import type { Client, Scheduler } from '../ports.js'
import { FairQueue, type WaitingTask } from './concurrency-limiter.js'

/** Tasks per round of the event loop. A task is up to 24 key recoveries; other requests proceed between two rounds. */
const TASKS_PER_ROUND = 2
/** Maximum number of waiting tasks, for each of the two priorities. */
const MAX_WAITING = 1_000
/** Number of rounds after which `background` tasks run first once, so that a stream of logins never starves them. */
const BACKGROUND_ROUND = 8

/** A task that is refused if its client has disconnected. */
type ClientTask = WaitingTask & { readonly client: Client }

/**
 * Spreads long computations over rounds of the event loop. Client networks take turns, so that a network with many
 * tasks delays only its own. `background` tasks run after all others, except in every eighth round. It is not a
 * `ConcurrencyLimiter`, because a turn ends with its round, and not with its task.
 */
export class EventLoopScheduler implements Scheduler {
  /** Number of tasks that run in the current round. */
  #running = 0
  #round = 0
  readonly #foreground = new FairQueue<ClientTask>(MAX_WAITING)
  readonly #background = new FairQueue<ClientTask>(MAX_WAITING)

  yield(client: Client, priority?: 'background'): Promise<void> {
    if (client.isGone()) return Promise.reject(createBusyError())
    if (this.#running === 0) setImmediate(this.#nextRound)
    if (this.#running < TASKS_PER_ROUND) {
      this.#running += 1
      return Promise.resolve()
    }
    return new Promise((resolve, reject) => {
      const refuse = (): void => reject(createBusyError())
      const queue = priority === 'background' ? this.#background : this.#foreground
      queue.add({ network: client.network, client, resume: resolve, refuse })
    })
  }

  readonly #nextRound = (): void => {
    this.#round = (this.#round + 1) % BACKGROUND_ROUND
    const queues = [this.#foreground, this.#background]
    const [first, second] = this.#round === 0 ? queues.reverse() : queues
    const resumed: ClientTask[] = []
    while (resumed.length < TASKS_PER_ROUND) {
      const task = first?.next() ?? second?.next()
      if (task === undefined) break
      // Skip clients that have disconnected.
      if (task.client.isGone()) task.refuse()
      else resumed.push(task)
    }
    this.#running = resumed.length
    if (resumed.length > 0) setImmediate(this.#nextRound)
    for (const { resume } of resumed) resume()
  }
}

/**
 * Scheduler for Workers, where a timer ends with the request that started it: tasks of other requests would wait
 * forever for the next round. Each task waits for its own timer, so that other requests proceed.
 */
export const requestScheduler: Scheduler = {
  yield: (client) =>
    client.isGone() ? Promise.reject(createBusyError()) : new Promise((resolve) => void setTimeout(resolve, 0))
}

function createBusyError(): DidAuthError {
  return new DidAuthError('ERR_BUSY', { retryAfterSeconds: 1 })
}
