import type { EventEmitter } from 'node:events'
import { DidAuthError } from '../errors.js'

/** A response, of which `close` tells that its client has disconnected. */
type Closing = Pick<EventEmitter, 'once' | 'off'> & { readonly destroyed: boolean }

/** Runs so much work at once, and lets so much wait, first come, first served. */
export class ConcurrencyLimiter {
  readonly #limits: { maxRunning: number; maxWaiting: number; timeoutMilliseconds: number }
  /** Starts of what waits, in order. */
  readonly #waiting = new Set<() => void>()
  #running = 0

  /** @param limits - `timeoutMilliseconds`: how long one waits at most */
  constructor(limits: { maxRunning: number; maxWaiting: number; timeoutMilliseconds: number }) {
    this.#limits = limits
  }

  /**
   * Runs work, now or when others have ended.
   * @param response - of the request that it is for, if any: when its client disconnects, it no longer waits
   * @throws DidAuthError ERR_BUSY when too many wait, after the timeout, and when the client has disconnected
   */
  async run<T>(response: Closing | undefined, work: () => Promise<T>): Promise<T> {
    if (response?.destroyed === true) throw new DidAuthError('ERR_BUSY')
    if (this.#running >= this.#limits.maxRunning) await this.#wait(response)
    else this.#running += 1
    try {
      return await work()
    } finally {
      const [next] = this.#waiting
      // The next one runs in this one's place, so that a newcomer cannot come before it.
      if (next === undefined) this.#running -= 1
      else next()
    }
  }

  #wait(response: Closing | undefined): Promise<void> {
    if (this.#waiting.size >= this.#limits.maxWaiting) throw new DidAuthError('ERR_BUSY')
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        clearTimeout(timer)
        response?.off('close', refuse)
        this.#waiting.delete(start)
      }
      const start = (): void => {
        leave()
        resolve()
      }
      const refuse = (): void => {
        leave()
        reject(new DidAuthError('ERR_BUSY'))
      }
      const timer = setTimeout(refuse, this.#limits.timeoutMilliseconds)
      response?.once('close', refuse)
      this.#waiting.add(start)
    })
  }
}
