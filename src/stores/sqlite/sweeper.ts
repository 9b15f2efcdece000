import type { SweepClock } from '../sweep-clock.js'

/** Seconds of the callers' clock between two sweeps. */
const PAUSE_SECONDS = 60

/**
 * Deletes expired rows, a few at a time, with the thread's other work in between. It has no timer: the times that callers
 * pass start it, and the {@link SweepClock} bounds what it deletes.
 */
export class Sweeper {
  readonly #clock: SweepClock
  readonly #step: (sweepSeconds: number, isFirst: boolean) => boolean
  #nowSeconds = -Infinity
  #sweptAtSeconds = -Infinity
  #immediate: NodeJS.Immediate | undefined

  /** @param step - deletes some rows in a transaction; true when there may be more */
  constructor(clock: SweepClock, step: (sweepSeconds: number, isFirst: boolean) => boolean) {
    this.#clock = clock
    this.#step = step
  }

  /** Notes the caller's time. */
  see(nowSeconds: number | undefined): void {
    this.#nowSeconds = nowSeconds ?? this.#nowSeconds
  }

  /** Starts a sweep when one is due, also after the clock was set back. */
  run(): void {
    if (this.#immediate !== undefined || Math.abs(this.#nowSeconds - this.#sweptAtSeconds) < PAUSE_SECONDS) return
    if (this.#nowSeconds === -Infinity) return
    this.#sweptAtSeconds = this.#nowSeconds
    this.#schedule(this.#clock.sweepSeconds(this.#nowSeconds), true)
  }

  stop(): void {
    clearImmediate(this.#immediate)
  }

  #schedule(sweepSeconds: number, isFirst: boolean): void {
    if (sweepSeconds === -Infinity) return
    this.#immediate = setImmediate(() => {
      this.#immediate = undefined
      // A clock that was set back meanwhile counts: rows that it does not call expired stay.
      const dueSeconds = Math.min(sweepSeconds, this.#nowSeconds)
      if (this.#step(dueSeconds, isFirst)) this.#schedule(sweepSeconds, false)
    })
  }
}
