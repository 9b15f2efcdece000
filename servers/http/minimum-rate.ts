/** What a transfer must reach, in bytes a second. A phone on a bad network has ten times that. */
const MIN_BYTES_PER_SECOND = 4_096
const GRACE_MILLISECONDS = 5_000
/** What was transferred faster than needed covers at most such a pause. */
const MAX_CREDIT_MILLISECONDS = 15_000
/**
 * The same for what is sent: the systems of both ends buffer up to 10 MB, which a client that reads 100 kB/s takes 100 s
 * for, in which the server sees no progress.
 */
export const MAX_SENDING_CREDIT_MILLISECONDS = 120_000

/**
 * The minimum data rate of an upload or a download: 4 KiB/s, after 5 s. A transfer that is faster may pause for at most
 * 15 s (an upload) or 120 s (a download); one that is slower ends.
 *
 * The time in which the server waits for itself (a disk, the source of an answer) is not counted: `pause` and `resume`.
 */
export class MinimumRate {
  readonly #onTooSlow: () => void
  readonly #maxCreditMilliseconds: number
  #creditMilliseconds = GRACE_MILLISECONDS
  #sinceMilliseconds = performance.now()
  #timer: NodeJS.Timeout | undefined

  /**
   * @param onTooSlow - called at most once; ends the transfer
   * @param maxCreditMilliseconds - the longest pause of a transfer that was faster before
   */
  constructor(onTooSlow: () => void, maxCreditMilliseconds = MAX_CREDIT_MILLISECONDS) {
    this.#onTooSlow = onTooSlow
    this.#maxCreditMilliseconds = maxCreditMilliseconds
    this.#schedule()
  }

  /** Counts bytes that were transferred. */
  add(bytes: number): void {
    const credit = this.#settle() + (bytes * 1_000) / MIN_BYTES_PER_SECOND
    this.#creditMilliseconds = Math.min(this.#maxCreditMilliseconds, credit)
  }

  /** The server is what the transfer waits for now. */
  pause(): void {
    if (this.#timer === undefined) return
    this.#settle()
    this.stop()
  }

  /** The client is what the transfer waits for again. */
  resume(): void {
    if (this.#timer !== undefined) return
    this.#sinceMilliseconds = performance.now()
    this.#schedule()
  }

  /** The transfer has ended. */
  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  /** Takes the time that has passed off the credit. */
  #settle(): number {
    const now = performance.now()
    if (this.#timer !== undefined) this.#creditMilliseconds -= now - this.#sinceMilliseconds
    this.#sinceMilliseconds = now
    return this.#creditMilliseconds
  }

  #schedule(): void {
    this.#timer = setTimeout(() => {
      if (this.#settle() > 0) {
        this.#schedule()
        return
      }
      this.stop()
      this.#onTooSlow()
    }, this.#creditMilliseconds)
  }
}
