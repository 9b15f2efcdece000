import type { EventEmitter } from 'node:events'
import { DidAuthError } from '../errors.js'
import { FairQueue } from './fair-queue.js'

/** A response, which emits `close` when its client disconnects. */
type Closing = Pick<EventEmitter, 'once' | 'off'> & { readonly destroyed: boolean }

/** Options of {@link ConcurrencyLimiter}. */
export interface ConcurrencyLimits {
  maxRunning: number
  maxWaiting: number
  /** Maximum time that work waits for its start. */
  timeoutMilliseconds: number
  /** Maximum part of each limit that one client network may use. Default: a quarter. */
  networkShare?: number
}

/** Options of a wait for the start of work. Without a client network, only the total limits apply. */
export interface WaitOptions extends Partial<Pick<ConcurrencyLimits, 'timeoutMilliseconds'>> {
  network: string | undefined
  /** Response to the client: if the client disconnects, its work no longer waits. */
  response?: Closing | undefined
  /** Whether the work starts before other waiting work of its network. */
  isFirst?: boolean
  /** Creates the error after the timeout, or if too much work waits. Default: ERR_BUSY. */
  createError?: (isTimeout: boolean) => Error
}

/**
 * Limits how much work runs and how much waits. Waiting client networks take turns; the work of one network starts in
 * order. A client network may use at most its share of each limit.
 */
export class ConcurrencyLimiter {
  readonly #limits: Required<ConcurrencyLimits>
  readonly #queue: FairQueue
  /** Amount of running work by client network. */
  readonly #runningByNetwork = new Map<string | undefined, number>()
  #running = 0

  constructor(limits: ConcurrencyLimits) {
    this.#limits = { networkShare: 1 / 4, ...limits }
    this.#queue = new FairQueue(limits.maxWaiting, this.#computeShare(limits.maxWaiting))
  }

  /** Amount of work that runs or waits. */
  get size(): number {
    return this.#running + this.#queue.size
  }

  /** Runs work, at once or after other work has ended. @throws DidAuthError as `acquire` */
  async run<T>(response: Closing | undefined, work: () => Promise<T>, network?: string): Promise<T> {
    const end = await this.acquire({ response, network })
    try {
      return await work()
    } finally {
      end()
    }
  }

  /**
   * Waits until work may run.
   *
   * @returns a function that ends the work; call it once
   * @throws DidAuthError ERR_BUSY if too much work waits, after the timeout, and if the client has disconnected
   */
  async acquire(options: WaitOptions): Promise<() => void> {
    const { response, network } = options
    if (response?.destroyed === true) throw new DidAuthError('ERR_BUSY')
    if (this.#mayRun(network)) this.#count(network, 1)
    else await this.#wait(options)
    return () => {
      this.#count(network, -1)
      // Start waiting work in the same tick, so that new work cannot overtake it.
      const task = this.#queue.next(this.#mayRun)
      if (task === undefined) return
      this.#count(task.network, 1)
      task.resume()
    }
  }

  readonly #mayRun = (network: string | undefined): boolean => {
    const { maxRunning } = this.#limits
    const ownMax = network === undefined ? maxRunning : this.#computeShare(maxRunning)
    return this.#running < maxRunning && (this.#runningByNetwork.get(network) ?? 0) < ownMax
  }

  #computeShare(total: number): number {
    return Math.max(1, Math.floor(total * this.#limits.networkShare))
  }

  #count(network: string | undefined, change: 1 | -1): void {
    this.#running += change
    const running = (this.#runningByNetwork.get(network) ?? 0) + change
    if (running > 0) this.#runningByNetwork.set(network, running)
    else this.#runningByNetwork.delete(network)
  }

  #wait({ network, response, isFirst, createError, ...options }: WaitOptions): Promise<void> {
    return new Promise((resolve, reject) => {
      const createEnd = (settle: () => void) => (): void => {
        clearTimeout(timer)
        response?.off('close', task.refuse)
        this.#queue.remove(task)
        settle()
      }
      const createRefusal = (isTimeout: boolean): (() => void) =>
        createEnd(() => reject(createError?.(isTimeout) ?? new DidAuthError('ERR_BUSY')))
      const task = { network, resume: createEnd(resolve), refuse: createRefusal(false) }
      const { timeoutMilliseconds } = { ...this.#limits, ...options }
      const timer = setTimeout(createRefusal(true), timeoutMilliseconds)
      response?.once('close', task.refuse)
      this.#queue.add(task, isFirst)
    })
  }
}
