import { DidAuthError } from 'express-did-auth'

/** Budget of bytes that may be acquired at the same time, in total and by each owner (default: a quarter). */
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
   * Acquires bytes without waiting, or refuses. A request above an owner's share counts as that share: it succeeds
   * while the owner has acquired nothing else.
   *
   * @param owner - such as a canonical DID or a client network; absent: only the total counts
   * @returns a function that releases the bytes; calling it again changes nothing
   * @throws DidAuthError ERR_BUSY
   */
  acquire(bytes: number, owner?: string): () => void {
    const release = this.tryAcquire(bytes, owner)
    if (release === undefined) throw new DidAuthError('ERR_BUSY')
    return release
  }

  /** Acquires bytes as `acquire` does. Returns undefined where `acquire` throws. */
  tryAcquire(bytes: number, owner?: string): (() => void) | undefined {
    const counted = owner === undefined ? bytes : Math.min(bytes, this.#maxBytesPerOwner)
    const ownerBytes = owner === undefined ? 0 : (this.#byOwner.get(owner) ?? 0) + counted
    if (this.#bytes + counted > this.#maxBytes || ownerBytes > this.#maxBytesPerOwner) return undefined
    this.#add(counted, owner)
    let isReleased = false
    return () => {
      if (!isReleased) this.#add(-counted, owner)
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
/** Longest pause of a transfer that was faster than the minimum rate before. */
const MAX_CREDIT_MILLISECONDS = 15_000
/** Longest pause of a download. Both systems buffer up to 10 MB, which a client of 100 kB/s reads in 100 s. */
export const MAX_SENDING_CREDIT_MILLISECONDS = 120_000

/**
 * Minimum rate of a transfer: 4 KiB/s, after 5 s. A slower transfer is ended. A faster one may pause for at most 15 s
 * (an upload) or 120 s (a download). `pause` and `resume` exclude the time that the server itself takes.
 */
export class MinimumRate {
  readonly #onTooSlow: () => void
  readonly #maxCreditMilliseconds: number
  /** Time at which the transfer is too slow, unless more bytes arrive before. */
  #deadline = performance.now() + GRACE_MILLISECONDS
  #pausedAt: number | undefined
  #timer: NodeJS.Timeout | undefined

  /** @param onTooSlow - called once at most, ends the transfer @param maxCreditMilliseconds - its longest pause */
  constructor(onTooSlow: () => void, maxCreditMilliseconds = MAX_CREDIT_MILLISECONDS) {
    this.#onTooSlow = onTooSlow
    this.#maxCreditMilliseconds = maxCreditMilliseconds
    this.#schedule()
  }

  add(bytes: number): void {
    const longest = (this.#pausedAt ?? performance.now()) + this.#maxCreditMilliseconds
    this.#deadline = Math.min(longest, this.#deadline + (bytes * 1_000) / MIN_BYTES_PER_SECOND)
  }

  /** Stops the time while the transfer waits for the server. */
  pause(): void {
    this.#pausedAt ??= performance.now()
    this.stop()
  }

  /** Continues the time when the transfer waits for the client again. */
  resume(): void {
    if (this.#pausedAt === undefined) return
    this.#deadline += performance.now() - this.#pausedAt
    this.#pausedAt = undefined
    this.#schedule()
  }

  stop(): void {
    clearTimeout(this.#timer)
  }

  #schedule(): void {
    this.#timer = setTimeout(() => {
      if (performance.now() < this.#deadline) this.#schedule()
      else this.#onTooSlow()
    }, this.#deadline - performance.now()).unref()
  }
}
