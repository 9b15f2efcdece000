import { DidAuthError } from '../errors.js'
import type { Client } from '../ports.js'
import { FairQueue } from './fair-queue.js'

/** Runs so much work at once, and lets so much wait, in turn by client network. Work counts until it has really ended. */
export class ConcurrencyLimiter {
  readonly #maxRunning: number
  readonly #waiting: FairQueue
  #running = 0

  constructor({ maxRunning, maxWaiting }: { maxRunning: number; maxWaiting: number }) {
    this.#maxRunning = maxRunning
    this.#waiting = new FairQueue(maxWaiting)
  }

  /**
   * Runs work, now or when others have ended.
   *
   * @throws DidAuthError ERR_BUSY when too many wait, and when the client is gone by its turn; what the work throws
   */
  async run<T>(client: Client, work: () => Promise<T>): Promise<T> {
    if (this.#running < this.#maxRunning) this.#running += 1
    else await this.#wait(client)
    try {
      return await work()
    } finally {
      this.#resumeNext()
    }
  }

  #wait(client: Client): Promise<void> {
    return new Promise((resume, reject) => {
      const refuse = (): void => {
        reject(new DidAuthError('ERR_BUSY', { retryAfterSeconds: 1 }))
      }
      this.#waiting.add({ client, resume, refuse })
    })
  }

  /** The next one runs in the place of the one that ended, so that a newcomer cannot come before it. */
  #resumeNext(): void {
    for (let task = this.#waiting.next(); task !== undefined; task = this.#waiting.next()) {
      if (!task.client.isGone()) {
        task.resume()
        return
      }
      task.refuse()
    }
    this.#running -= 1
  }
}
