/** What all readers together read before others get their turn; small entries cost as much as a kibibyte. */
const TURN_BYTES = 262_144

/**
 * Turns of the event loop that the readers of all answers share: however many they are, one turn reads no more than one
 * of them alone would.
 */
export class ReadingTurns {
  #spent = 0
  #waiting: (() => void)[] = []

  /** Whether the next step has to wait. */
  get isOver(): boolean {
    return this.#spent >= TURN_BYTES || this.#waiting.length > 0
  }

  /** Counts a step that was done. */
  spend(bytes: number): void {
    this.#spent += bytes
  }

  /** Resolves when it is this reader's turn, first come, first served. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#waiting.length === 0) setImmediate(this.#begin)
      this.#waiting.push(resolve)
    })
  }

  readonly #begin = (): void => {
    this.#spent = 0
    this.#waiting.shift()?.()
    if (this.#waiting.length > 0) setImmediate(this.#begin)
  }
}
