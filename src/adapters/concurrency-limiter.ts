import type { EventEmitter } from 'node:events'
import { DidAuthError } from '../errors.js'
import { FairQueue } from './fair-queue.js'

/** A response, which emits `close` when its client disconnects. */
type Closing = Pick<EventEmitter, 'once' | 'off'> & { readonly destroyed: boolean }

/** Limits of a {@link ConcurrencyLimiter}. */
export interface ConcurrencyLimits {
  maxRunning: number
  maxWaiting: number
  /** Maximum time that work waits for its start. */
  timeoutMilliseconds: number
}

/** Maximum part of each limit that one client network may use. */
const NETWORK_SHARE = 1 / 4

/**
 * Limits how much work runs and how much waits. Waiting client networks take turns; the work of one network starts in
 * order. A client network may use at most a quarter of each limit.
 */
export class ConcurrencyLimiter {
  readonly #limits: ConcurrencyLimits
  readonly #queue: FairQueue
  /** Amount of running work by client network. */
  readonly #runningByNetwork = new Map<string | undefined, number>()
  #running = 0

  constructor(limits: ConcurrencyLimits) {
    this.#limits = limits
    this.#queue = new FairQueue(limits.maxWaiting, computeShare(limits.maxWaiting))
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
    if (this.#mayRun(network)) this.#count(network, 1)
    else await this.#wait(response, network)
    try {
      return await work()
    } finally {
      this.#count(network, -1)
      this.#startNext()
    }
  }

  readonly #mayRun = (network: string | undefined): boolean => {
    const { maxRunning } = this.#limits
    const share = network === undefined ? maxRunning : computeShare(maxRunning)
    return this.#running < maxRunning && (this.#runningByNetwork.get(network) ?? 0) < share
  }

  #count(network: string | undefined, change: 1 | -1): void {
    const running = (this.#runningByNetwork.get(network) ?? 0) + change
    this.#running += change
    if (running > 0) this.#runningByNetwork.set(network, running)
    else this.#runningByNetwork.delete(network)
  }

  /** Starts waiting work in the same tick in which other work ends, so that new work cannot overtake it. */
  #startNext(): void {
    const task = this.#queue.next(this.#mayRun)
    if (task === undefined) return
    this.#count(task.network, 1)
    task.resume()
  }

  #wait(response: Closing | undefined, network: string | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = (settle: () => void) => (): void => {
        clearTimeout(timer)
        response?.off('close', task.refuse)
        this.#queue.remove(task)
        settle()
      }
      const refuse = end(() => reject(new DidAuthError('ERR_BUSY')))
      const task = { network, resume: end(resolve), refuse }
      const timer = setTimeout(refuse, this.#limits.timeoutMilliseconds)
      response?.once('close', refuse)
      this.#queue.add(task)
    })
  }
}

function computeShare(total: number): number {
  return Math.max(1, Math.floor(total * NETWORK_SHARE))
}
