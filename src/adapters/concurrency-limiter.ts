import type { EventEmitter } from 'node:events'
import { DidAuthError } from '../errors.js'
import type { Client, Scheduler } from '../ports.js'
import { toSite } from '../client-site.js'
import { NetworkShares } from './network-shares.js'

/** A task that waits to run. The queue's owner calls exactly one of its two functions, once. */
export interface WaitingTask {
  /** Client network of the task; undefined if no request caused it. */
  readonly network: string | undefined
  resume: () => void
  refuse: () => void
}

/**
 * Queue of waiting tasks in which client networks take turns. A full queue refuses the newest task of the network with
 * the most tasks, so that a flood from one network displaces only its own tasks. If only a site is full, one of its
 * networks is refused.
 */
export class FairQueue<T extends WaitingTask = WaitingTask> {
  readonly #maxSize: number
  readonly #shares: NetworkShares
  /** Tasks by network. The first network is served next. */
  readonly #byNetwork = new Map<string | undefined, T[]>()
  #size = 0

  /** @param maxPerNetwork - as of {@link NetworkShares}. Default: only `maxSize` applies. */
  constructor(maxSize: number, maxPerNetwork = maxSize) {
    this.#maxSize = maxSize
    this.#shares = new NetworkShares(maxPerNetwork)
  }

  /** Number of waiting tasks. */
  get size(): number {
    return this.#size
  }

  /** Adds a task after those of its network, or before them with `isFirst`. A full queue refuses a task. */
  add(task: T, isFirst = false): void {
    const { network } = task
    const tasks = this.#byNetwork.get(network) ?? []
    this.#byNetwork.set(network, tasks)
    if (isFirst) tasks.unshift(task)
    else tasks.push(task)
    const isShareFull = network !== undefined && !this.#shares.hasRoom(network, 1)
    this.#count(network, 1)
    if (!isShareFull && this.#size <= this.#maxSize) return
    const site = isShareFull ? toSite(network) : undefined
    let longest = tasks
    // If several networks have the most tasks, take the last one, which would be served last.
    for (const [other, others] of this.#byNetwork) {
      const isCounted = site === undefined || (other !== undefined && toSite(other) === site)
      if (isCounted && others.length >= longest.length) longest = others
    }
    const newest = longest.at(-1)
    if (newest === undefined) return
    this.remove(newest)
    newest.refuse()
  }

  /** Removes a task that no longer waits. Does nothing if it is not in the queue. */
  remove(task: T): void {
    const tasks = this.#byNetwork.get(task.network) ?? []
    const index = tasks.indexOf(task)
    if (index < 0) return
    tasks.splice(index, 1)
    if (tasks.length === 0) this.#byNetwork.delete(task.network)
    this.#count(task.network, -1)
  }

  #count(network: string | undefined, change: 1 | -1): void {
    this.#size += change
    if (network !== undefined) this.#shares.add(network, change)
  }

  /** Removes the next task. Skips networks that may not run one now. @returns undefined if there is none */
  next(mayRun: (network: string | undefined) => boolean = () => true): T | undefined {
    for (const [network, tasks] of this.#byNetwork) {
      const [task] = tasks
      if (task === undefined || !mayRun(network)) continue
      this.remove(task)
      // Move the network to the end of the queue.
      if (this.#byNetwork.delete(network)) this.#byNetwork.set(network, tasks)
      return task
    }
    return undefined
  }
}

/** A response, which emits `close` when its client disconnects. */
type Closing = Pick<EventEmitter, 'once' | 'off'> & { readonly destroyed: boolean }

/** Options of {@link ConcurrencyLimiter}. */
export interface ConcurrencyLimits {
  maxRunning: number
  maxWaiting: number
  /** Maximum time that work waits for its start. */
  timeoutMilliseconds: number
  /** Maximum part of each limit that one client network may use; its site may use twice as much. Default: a quarter. */
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
  readonly #shares: NetworkShares
  #running = 0

  constructor(limits: ConcurrencyLimits) {
    this.#limits = { networkShare: 1 / 4, ...limits }
    this.#shares = new NetworkShares(this.#computeShare(limits.maxRunning))
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
    return this.#running < this.#limits.maxRunning && (network === undefined || this.#shares.hasRoom(network, 1))
  }

  #computeShare(total: number): number {
    return Math.max(1, Math.floor(total * this.#limits.networkShare))
  }

  #count(network: string | undefined, change: 1 | -1): void {
    this.#running += change
    if (network !== undefined) this.#shares.add(network, change)
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

/** A task that is refused if its client has disconnected. */
type ClientTask = WaitingTask & { readonly client: Client }

/** Tasks per round of the event loop. A task is up to 24 key recoveries; other requests proceed between two rounds. */
const TASKS_PER_ROUND = 2
/** Maximum number of waiting tasks, for each of the two priorities. */
const MAX_WAITING_TASKS = 1_000
/** Number of rounds after which `background` tasks run first once, so that a stream of logins never starves them. */
const BACKGROUND_ROUND = 8

/**
 * Spreads long computations over rounds of the event loop. Client networks take turns, so that a network with many
 * tasks delays only its own. `background` tasks run after all others, except in every eighth round. It is not a
 * `ConcurrencyLimiter`, because a turn ends with its round, and not with its task.
 */
export class EventLoopScheduler implements Scheduler {
  /** Number of tasks that run in the current round. */
  #running = 0
  #round = 0
  readonly #foreground = new FairQueue<ClientTask>(MAX_WAITING_TASKS)
  readonly #background = new FairQueue<ClientTask>(MAX_WAITING_TASKS)

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
