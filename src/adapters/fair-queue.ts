import type { Client } from '../ports.js'

/** A task that waits to run. The queue's owner calls exactly one of its two functions, once. */
export interface WaitingTask {
  client: Client
  resume: () => void
  refuse: () => void
}

/**
 * Queue of waiting tasks in which client networks take turns. A full queue refuses the newest task of the network with
 * the most tasks, so that a flood from one network displaces only its own tasks.
 */
export class FairQueue<T extends WaitingTask = WaitingTask> {
  readonly #maxSize: number
  /** Tasks by network. The first network is served next. */
  readonly #byNetwork = new Map<string, T[]>()
  #size = 0

  constructor(maxSize: number) {
    this.#maxSize = maxSize
  }

  /** Number of waiting tasks. */
  get size(): number {
    return this.#size
  }

  /** Adds a task after those of its network, or before them with `isFirst`. A full queue refuses a task. */
  add(task: T, isFirst = false): void {
    const { network } = task.client
    const tasks = this.#byNetwork.get(network)
    if (tasks === undefined) this.#byNetwork.set(network, [task])
    else if (isFirst) tasks.unshift(task)
    else tasks.push(task)
    this.#size += 1
    if (this.#size > this.#maxSize) this.#removeFromLongest()?.refuse()
  }

  /** Removes the next task; undefined when the queue is empty. */
  next(): T | undefined {
    const [first] = this.#byNetwork
    if (first === undefined) return undefined
    const [network, tasks] = first
    const task = tasks.shift()
    // Move the network to the end of the queue.
    this.#byNetwork.delete(network)
    if (tasks.length > 0) this.#byNetwork.set(network, tasks)
    this.#size -= 1
    return task
  }

  #removeFromLongest(): T | undefined {
    let longest: [string, T[]] | undefined
    // If several networks have the most tasks, take the last one, which would be served last.
    for (const entry of this.#byNetwork) if (entry[1].length >= (longest?.[1].length ?? 0)) longest = entry
    if (longest === undefined) return undefined
    const [network, tasks] = longest
    const task = tasks.pop()
    if (tasks.length === 0) this.#byNetwork.delete(network)
    this.#size -= 1
    return task
  }
}
