/** A task that waits to run. The queue's owner calls exactly one of its two functions, once. */
export interface WaitingTask {
  /** Client network of the task; undefined if no request caused it. */
  readonly network: string | undefined
  resume: () => void
  refuse: () => void
}

/**
 * Queue of waiting tasks in which client networks take turns. A full queue refuses the newest task of the network with
 * the most tasks, so that a flood from one network displaces only its own tasks.
 */
export class FairQueue<T extends WaitingTask = WaitingTask> {
  readonly #maxSize: number
  readonly #maxPerNetwork: number
  /** Tasks by network. The first network is served next. */
  readonly #byNetwork = new Map<string | undefined, T[]>()
  #size = 0

  /** @param maxPerNetwork - maximum number of waiting tasks of a network. Default: only `maxSize` applies. */
  constructor(maxSize: number, maxPerNetwork = maxSize) {
    this.#maxSize = maxSize
    this.#maxPerNetwork = maxPerNetwork
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
    this.#size += 1
    const isNetworkFull = network !== undefined && tasks.length > this.#maxPerNetwork
    if (!isNetworkFull && this.#size <= this.#maxSize) return
    let longest = tasks
    // If several networks have the most tasks, take the last one, which would be served last.
    if (!isNetworkFull)
      for (const other of this.#byNetwork.values()) if (other.length >= longest.length) longest = other
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
    this.#size -= 1
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
