/** The parts of a discrete-event simulation: time, random numbers, servers with a queue, pools of connections. */

/** Numbers from 0 to 1, the same ones for the same seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** A number of an exponential distribution. */
export function exponential(mean: number, random: () => number): number {
  return -mean * Math.log(1 - random())
}

interface Event {
  atSeconds: number
  number: number
  run: () => void
}

/** Events in the order of their time, and at one time in the order in which they were planned. A binary heap. */
export class Timeline {
  nowSeconds = 0
  readonly #heap: Event[] = []
  #planned = 0

  after(seconds: number, run: () => void): void {
    const event = { atSeconds: this.nowSeconds + seconds, number: this.#planned++, run }
    let index = this.#heap.push(event) - 1
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (!isEarlier(event, this.#heap[parent]!)) break
      this.#heap[index] = this.#heap[parent]!
      index = parent
    }
    this.#heap[index] = event
  }

  /** Runs everything that is planned, and what that plans. */
  run(): void {
    for (let event = this.#next(); event !== undefined; event = this.#next()) {
      this.nowSeconds = event.atSeconds
      event.run()
    }
  }

  #next(): Event | undefined {
    const heap = this.#heap
    const [first] = heap
    const last = heap.pop()
    if (first === undefined || last === undefined || heap.length === 0) return first
    let index = 0
    for (;;) {
      let child = 2 * index + 1
      if (child + 1 < heap.length && isEarlier(heap[child + 1]!, heap[child]!)) child += 1
      if (child >= heap.length || !isEarlier(heap[child]!, last)) break
      heap[index] = heap[child]!
      index = child
    }
    heap[index] = last
    return first
  }
}

function isEarlier(one: Event, other: Event): boolean {
  return one.atSeconds < other.atSeconds || (one.atSeconds === other.atSeconds && one.number < other.number)
}

/** Work that waits its turn. It is skipped when it was cancelled before it began. */
export interface Job {
  isCancelled: boolean
}

/** First in, first out. An array alone would move all that wait at each turn. */
class Queue<T> {
  #items: T[] = []
  #begin = 0

  get length(): number {
    return this.#items.length - this.#begin
  }

  push(item: T): void {
    this.#items.push(item)
  }

  shift(): T | undefined {
    const item = this.#items[this.#begin]
    if (item === undefined) return undefined
    this.#begin += 1
    if (this.#begin > 1_000 && this.#begin * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#begin)
      this.#begin = 0
    }
    return item
  }
}

/** `cores` servers with one queue. While it is paused it begins nothing. */
export class Station {
  /** Seconds of its cores that were used since `countFrom`, and seconds that each job waited. */
  busySeconds = 0
  waits: number[] = []
  readonly #timeline: Timeline
  readonly #cores: number
  readonly #wakeSeconds: number
  readonly #queue = new Queue<{ job: Job; seconds: number; done: () => void; since: number }>()
  #busy = 0
  #isPaused = false

  /** @param wakeSeconds - what work that finds nothing running takes besides: the process is woken, its caches are cold */
  constructor(timeline: Timeline, cores: number, wakeSeconds = 0) {
    this.#timeline = timeline
    this.#cores = cores
    this.#wakeSeconds = wakeSeconds
  }

  serve(job: Job, seconds: number, done: () => void): void {
    this.#queue.push({ job, seconds, done, since: this.#timeline.nowSeconds })
    this.#begin()
  }

  pause(isPaused: boolean): void {
    this.#isPaused = isPaused
    this.#begin()
  }

  /** Forgets what was counted: the simulation is warm now. */
  reset(): void {
    this.busySeconds = 0
    this.waits = []
  }

  /** @param isAwake - whether other work has just ended */
  #begin(isAwake = false): void {
    while (!this.#isPaused && this.#busy < this.#cores) {
      const next = this.#queue.shift()
      if (next === undefined) return
      if (next.job.isCancelled) continue
      const seconds = next.seconds + (this.#busy === 0 && !isAwake ? this.#wakeSeconds : 0)
      this.#busy += 1
      this.waits.push(this.#timeline.nowSeconds - next.since)
      this.#timeline.after(seconds, () => {
        this.#busy -= 1
        this.busySeconds += seconds
        next.done()
        this.#begin(true)
      })
    }
  }
}

/** Connections of an instance, and a bounded queue for them. */
export class Pool {
  readonly #maxWaiting: number
  readonly #queue = new Queue<{ job: Job; take: () => void }>()
  #free: number

  constructor(size: number, maxWaiting: number) {
    this.#free = size
    this.#maxWaiting = maxWaiting
  }

  /** @returns false when too many wait */
  acquire(job: Job, take: () => void): boolean {
    if (this.#free > 0) {
      this.#free -= 1
      take()
      return true
    }
    if (this.#queue.length >= this.#maxWaiting) return false
    this.#queue.push({ job, take })
    return true
  }

  release(): void {
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      if (next.job.isCancelled) continue
      next.take()
      return
    }
    this.#free += 1
  }
}
