import type { EventEmitter } from 'node:events'
import { DidAuthError } from '../errors.js'

/** A response, which emits `close` when its client disconnects. */
type Closing = Pick<EventEmitter, 'once' | 'off'> & { readonly destroyed: boolean }

/** Work of one client network. */
interface Share {
  readonly network: string | undefined
  running: number
  /** Functions that start the waiting work, in order. */
  readonly waiting: Set<() => void>
}

/** Maximum part of each limit that one client network may use. */
const NETWORK_SHARE = 1 / 4

/**
 * Limits how much work runs and how much waits. Waiting client networks take turns; the work of one network starts in
 * order. A client network may use at most a quarter of each limit.
 */
export class ConcurrencyLimiter {
  readonly #limits: { maxRunning: number; maxWaiting: number; timeoutMilliseconds: number }
  /** Networks with work, in the order in which they are served next. */
  readonly #shares = new Map<string | undefined, Share>()
  #running = 0
  #waiting = 0

  /** @param limits - `timeoutMilliseconds`: maximum time that work waits for its start */
  constructor(limits: { maxRunning: number; maxWaiting: number; timeoutMilliseconds: number }) {
    this.#limits = limits
  }

  /**
   * Runs work, at once or after other work has ended.
   *
   * @param response - response to the client, if any: if the client disconnects, waiting work is cancelled
   * @param network - client network of the request; absent: only the total limits apply
   * @throws DidAuthError ERR_BUSY if too much work waits, after the timeout, and if the client has disconnected
   */
  async run<T>(response: Closing | undefined, work: () => Promise<T>, network?: string): Promise<T> {
    if (response?.destroyed === true) throw new DidAuthError('ERR_BUSY')
    const share = this.#shares.get(network) ?? { network, running: 0, waiting: new Set() }
    this.#shares.set(network, share)
    if (this.#mayRun(share)) this.#begin(share)
    else await this.#wait(response, share)
    try {
      return await work()
    } finally {
      this.#running -= 1
      share.running -= 1
      this.#startNext()
      this.#dropIfIdle(share)
    }
  }

  #mayRun(share: Share): boolean {
    const { maxRunning } = this.#limits
    return this.#running < maxRunning && share.running < boundFor(share, maxRunning)
  }

  #begin(share: Share): void {
    this.#running += 1
    share.running += 1
  }

  /** Starts waiting work in the same tick in which other work ends, so that new work cannot overtake it. */
  #startNext(): void {
    for (const share of this.#shares.values()) {
      const [start] = share.waiting
      if (start === undefined || !this.#mayRun(share)) continue
      // Move the share to the end of the queue.
      this.#shares.delete(share.network)
      this.#shares.set(share.network, share)
      start()
      return
    }
  }

  #dropIfIdle({ network, running, waiting }: Share): void {
    if (running === 0 && waiting.size === 0) this.#shares.delete(network)
  }

  async #wait(response: Closing | undefined, share: Share): Promise<void> {
    const { maxWaiting, timeoutMilliseconds } = this.#limits
    if (this.#waiting >= maxWaiting || share.waiting.size >= boundFor(share, maxWaiting)) {
      this.#dropIfIdle(share)
      throw new DidAuthError('ERR_BUSY')
    }
    await new Promise<void>((resolve, reject) => {
      const leave = (): void => {
        clearTimeout(timer)
        response?.off('close', refuse)
        share.waiting.delete(start)
        this.#waiting -= 1
      }
      const start = (): void => {
        leave()
        this.#begin(share)
        resolve()
      }
      const refuse = (): void => {
        leave()
        this.#dropIfIdle(share)
        reject(new DidAuthError('ERR_BUSY'))
      }
      const timer = setTimeout(refuse, timeoutMilliseconds)
      response?.once('close', refuse)
      share.waiting.add(start)
      this.#waiting += 1
    })
  }
}

function boundFor({ network }: Share, total: number): number {
  return network === undefined ? total : Math.max(1, Math.floor(total * NETWORK_SHARE))
}
