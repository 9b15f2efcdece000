import { DidAuthError } from 'express-did-auth'

/** Budget of bytes that may be acquired at the same time, in total and for each owner (default: a quarter). */
export class ByteBudget {
  readonly #maxBytes: number
  readonly #maxBytesPerOwner: number
  readonly #byOwner = new Map<string, number>()
  #bytes = 0

  constructor({ maxBytes, maxBytesPerOwner = maxBytes / 4 }: { maxBytes: number; maxBytesPerOwner?: number }) {
    this.#maxBytes = maxBytes
    this.#maxBytesPerOwner = maxBytesPerOwner
  }

  /**
   * Acquires bytes without waiting, or throws. A request above an owner's share counts as that share: it succeeds
   * while the owner has acquired nothing else.
   *
   * @param owner - such as a canonical DID or a client network; if it is absent, only the total counts
   * @returns a function that releases the bytes; calling it again changes nothing
   * @throws DidAuthError ERR_BUSY
   */
  acquire(bytes: number, owner?: string): () => void {
    const release = this.tryAcquire(bytes, owner)
    if (release === undefined) throw new DidAuthError('ERR_BUSY')
    return release
  }

  /** Acquires bytes as `acquire` does, but returns undefined instead of throwing. */
  tryAcquire(bytes: number, owner?: string): (() => void) | undefined {
    const countedBytes = owner === undefined ? bytes : Math.min(bytes, this.#maxBytesPerOwner)
    const ownerBytes = owner === undefined ? 0 : (this.#byOwner.get(owner) ?? 0) + countedBytes
    if (this.#bytes + countedBytes > this.#maxBytes || ownerBytes > this.#maxBytesPerOwner) return undefined
    this.#add(countedBytes, owner)
    let isReleased = false
    return () => {
      if (!isReleased) this.#add(-countedBytes, owner)
      isReleased = true
    }
  }

  #add(bytes: number, owner: string | undefined): void {
    this.#bytes += bytes
    if (owner === undefined) return
    const ownerBytes = (this.#byOwner.get(owner) ?? 0) + bytes
    if (ownerBytes > 0) this.#byOwner.set(owner, ownerBytes)
    else this.#byOwner.delete(owner)
  }
}

/** Minimum transfer rate in bytes per second. A phone on a bad network is ten times faster. */
const MIN_BYTES_PER_SECOND = 4_096
const GRACE_MILLISECONDS = 5_000
/** Maximum pause of a transfer that was faster than the minimum rate before. */
const MAX_CREDIT_MILLISECONDS = 15_000
/** Maximum pause of a download. Both systems buffer up to 10 MB, which a client at 100 kB/s reads in 100 s. */
export const MAX_SENDING_CREDIT_MILLISECONDS = 120_000

/**
 * Watches the minimum rate of a transfer: 4 KiB/s after 5 s. A slower transfer is ended. A faster transfer may pause
 * for at most 15 s (uploads) or 120 s (downloads). `pause` and `resume` exclude the time that the server itself takes.
 */
export class MinimumRate {
  readonly #onTooSlow: () => void
  readonly #maxCreditMilliseconds: number
  /** Time at which the transfer is too slow, unless more bytes are transferred before. */
  #deadlineAt = performance.now() + GRACE_MILLISECONDS
  #pausedAt: number | undefined
  #timer: NodeJS.Timeout | undefined

  /** @param onTooSlow - ends the transfer; called at most once @param maxCreditMilliseconds - maximum pause */
  constructor(onTooSlow: () => void, maxCreditMilliseconds = MAX_CREDIT_MILLISECONDS) {
    this.#onTooSlow = onTooSlow
    this.#maxCreditMilliseconds = maxCreditMilliseconds
    this.#schedule()
  }

  add(bytes: number): void {
    const maxDeadlineAt = (this.#pausedAt ?? performance.now()) + this.#maxCreditMilliseconds
    this.#deadlineAt = Math.min(maxDeadlineAt, this.#deadlineAt + (bytes * 1_000) / MIN_BYTES_PER_SECOND)
  }

  /** Stops the clock while the transfer waits for the server. */
  pause(): void {
    this.#pausedAt ??= performance.now()
    this.stop()
  }

  /** Restarts the clock when the transfer waits for the client again. */
  resume(): void {
    if (this.#pausedAt === undefined) return
    this.#deadlineAt += performance.now() - this.#pausedAt
    this.#pausedAt = undefined
    this.#schedule()
  }

  stop(): void {
    clearTimeout(this.#timer)
  }

  #schedule(): void {
    this.#timer = setTimeout(() => {
      if (performance.now() < this.#deadlineAt) this.#schedule()
      else this.#onTooSlow()
    }, this.#deadlineAt - performance.now()).unref()
  }
}
