import type { EventEmitter } from 'node:events'
import { DidAuthError } from '../errors.js'

/** A response, of which `close` tells that its client has disconnected. */
type Closing = Pick<EventEmitter, 'once' | 'off'> & { readonly destroyed: boolean }

/** Work of one client network. */
interface Share {
  readonly network: string | undefined
  running: number
  /** Starts of work that waits, in order. */
  readonly waiting: Set<() => void>
}

/** Part of the limits that one client network gets. */
const NETWORK_SHARE = 1 / 4

/**
 * Runs a bounded amount of work at once, and lets a bounded amount wait: round-robin by client network, and in order
 * within one. A client network gets at most a quarter of either bound.
 */
export class ConcurrencyLimiter {
  readonly #limits: { maxRunning: number; maxWaiting: number; timeoutMilliseconds: number }
  /** Networks with work, in the order in which they are served next. */
  readonly #shares = new Map<string | undefined, Share>()
  #running = 0
  #waiting = 0

  /** @param limits - `timeoutMilliseconds`: how long one waits at most */
  constructor(limits: { maxRunning: number; maxWaiting: number; timeoutMilliseconds: number }) {
    this.#limits = limits
  }

  /**
   * Runs work, now or when others have ended.
   *
   * @param response - of the request that it is for, if any: when its client disconnects, it no longer waits
   * @param network - the client network of the request; absent: only the total counts
   * @throws DidAuthError ERR_BUSY when too many wait, after the timeout, and when the client has disconnected
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

  /** Starts the next work in place of the ended one, so that no newcomer can overtake it. */
  #startNext(): void {
    for (const share of this.#shares.values()) {
      const [start] = share.waiting
      if (start === undefined || !this.#mayRun(share)) continue
      // Move the share to the end of the round.
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
