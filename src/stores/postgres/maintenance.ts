import type { SweepClock } from '../sweep-clock.js'
import type { Sweep } from './sweep.js'
import type { TableBounds, TableSizes } from './table-sizes.js'

/** Seconds between two sweeps: each instance draws its own, so that they do not come together. */
const [SHORTEST_PAUSE, LONGEST_PAUSE] = [40, 80]

/** Seconds of the monotonic clock between two looks at the sizes of the tables. */
const SIZE_SECONDS = 10

/** What is to be done now and then. It has no timer: verbs start it, and none waits for it. */
export class Maintenance {
  readonly #clock: SweepClock
  readonly #sweep: Sweep
  readonly #sizes: TableSizes
  readonly #bounds: TableBounds
  #running: Promise<void> | undefined
  #isClosed = false
  #nowSeconds = -Infinity
  #sizesReadAt = -Infinity
  #sweptAtSeconds = -Infinity
  #pauseSeconds = 0

  constructor(clock: SweepClock, sweep: Sweep, sizes: TableSizes, bounds: TableBounds) {
    this.#clock = clock
    this.#sweep = sweep
    this.#sizes = sizes
    this.#bounds = bounds
  }

  /** Starts what is due, by the caller's time; also after the clock was set back. */
  see(nowSeconds: number): void {
    this.#nowSeconds = nowSeconds
    if (this.#running !== undefined || this.#isClosed) return
    const isSizeDue = performance.now() - this.#sizesReadAt >= SIZE_SECONDS * 1000
    const isSweepDue = Math.abs(nowSeconds - this.#sweptAtSeconds) >= this.#pauseSeconds
    if (!isSizeDue && !isSweepDue) return
    this.#running = this.#run(nowSeconds, isSweepDue)
      // The database is unavailable, which the verbs say. It is tried again when it is due again.
      .catch(() => undefined)
      .finally(() => {
        this.#running = undefined
      })
  }

  /** Ends what runs, after the statement that it is at. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#sweep.stop()
    await this.#running
  }

  async #run(nowSeconds: number, isSweepDue: boolean): Promise<void> {
    this.#sizesReadAt = performance.now()
    await this.#sizes.read()
    await this.#sweep.trimQuotas((table) => this.#sizes.isFull(table), this.#bounds)
    if (!isSweepDue) return
    this.#sweptAtSeconds = nowSeconds
    this.#pauseSeconds = SHORTEST_PAUSE + Math.random() * (LONGEST_PAUSE - SHORTEST_PAUSE)
    const sweepSeconds = this.#clock.sweepSeconds(nowSeconds)
    if (sweepSeconds === -Infinity) return
    // A clock that was set back meanwhile counts: rows that it does not call expired stay.
    await this.#sweep.deleteEnded(() => Math.min(sweepSeconds, this.#nowSeconds))
  }
}
