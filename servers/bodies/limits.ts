import { DidAuthError } from 'express-did-auth'

/** A number of bytes that may be acquired at once in total, and by each owner (default: a quarter). */
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
   * Acquires bytes at once, or refuses. More bytes than an owner's share count as that share: they are acquired while
   * the owner has nothing else.
   *
   * @param owner - such as a canonical DID or a client network; absent: only the total counts
   * @returns releases them; calling it again changes nothing
   * @throws DidAuthError ERR_BUSY
   */
  acquire(bytes: number, owner?: string): () => void {
    const release = this.tryAcquire(bytes, owner)
    if (release === undefined) throw new DidAuthError('ERR_BUSY')
    return release
  }

  /** Acquires bytes as `acquire` does. Returns undefined where that refuses. */
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

/** What a transfer must reach, in bytes a second. A phone on a bad network has ten times that. */
const MIN_BYTES_PER_SECOND = 4_096
const GRACE_MILLISECONDS = 5_000
/** What was transferred faster than needed covers at most such a pause. */
const MAX_CREDIT_MILLISECONDS = 15_000
/** For downloads: both systems buffer up to 10 MB, which a client of 100 kB/s reads in 100 s unnoticed. */
export const MAX_SENDING_CREDIT_MILLISECONDS = 120_000

/**
 * The minimum data rate of a transfer: 4 KiB/s, after 5 s. One that is faster may pause for at most 15 s (an upload) or
 * 120 s (a download); one that is slower ends. `pause` and `resume` leave out what the server itself takes.
 */
export class MinimumRate {
  readonly #onTooSlow: () => void
  readonly #maxCreditMilliseconds: number
  /** When the transfer is too slow, unless bytes come before. */
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

  /** The transfer waits for the server now. */
  pause(): void {
    this.#pausedAt ??= performance.now()
    this.stop()
  }

  /** The transfer waits for the client again. */
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
