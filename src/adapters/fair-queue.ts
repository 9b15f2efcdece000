import type { Client } from '../ports.js'

/** Work that waits to run. The queue's owner calls exactly one of the two functions, once. */
export interface WaitingTask {
  client: Client
  resume: () => void
  refuse: () => void
}

/**
 * Tasks that wait, scheduled round-robin by client network. A full queue refuses the newest task of the network with
 * the most tasks, so that a flood from one network displaces only its own.
 */
export class FairQueue<T extends WaitingTask = WaitingTask> {
  readonly #maxSize: number
  /** Tasks by network, in the order in which the networks are served next. */
  readonly #byNetwork = new Map<string, T[]>()
  #size = 0

  constructor(maxSize: number) {
    this.#maxSize = maxSize
  }

  /** Tasks that wait. */
  get size(): number {
    return this.#size
  }

  /** Adds a task, behind the others of its network or before them; a full queue refuses one. */
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
    // Move the network to the end of the round.
    this.#byNetwork.delete(network)
    if (tasks.length > 0) this.#byNetwork.set(network, tasks)
    this.#size -= 1
    return task
  }

  #removeFromLongest(): T | undefined {
    let longest: [string, T[]] | undefined
    // Among equal lengths take the last network, which would have been served last.
    for (const entry of this.#byNetwork) if (entry[1].length >= (longest?.[1].length ?? 0)) longest = entry
    if (longest === undefined) return undefined
    const [network, tasks] = longest
    const task = tasks.pop()
    if (tasks.length === 0) this.#byNetwork.delete(network)
    this.#size -= 1
    return task
  }
}
