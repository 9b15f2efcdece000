import { DidAuthError } from '../errors.js'
import type { Turns } from '../ports.js'

/** Turns per round of the event loop: one takes up to 24 key recoveries, in between everybody else is answered. */
const TURNS_PER_ROUND = 2
const MAX_WAITING = 1_000

/** Hands out turns of long arithmetic by rounds of the event loop, first come, first served. */
export class EventLoopTurns implements Turns {
  #taken = 0
  #waiting: (() => void)[] = []

  take(): Promise<void> {
    if (this.#taken === 0) setImmediate(this.#nextRound)
    if (this.#taken < TURNS_PER_ROUND) {
      this.#taken += 1
      return Promise.resolve()
    }
    if (this.#waiting.length >= MAX_WAITING) {
      return Promise.reject(new DidAuthError('ERR_BUSY', { retryAfterSeconds: 1 }))
    }
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  readonly #nextRound = (): void => {
    const admitted = this.#waiting.splice(0, TURNS_PER_ROUND)
    this.#taken = admitted.length
    if (admitted.length > 0) setImmediate(this.#nextRound)
    for (const admit of admitted) admit()
  }
}
