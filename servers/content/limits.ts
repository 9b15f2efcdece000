import type { IncomingMessage } from 'node:http'
import { DidAuthError } from 'express-did-auth'
import { NetworkShares } from 'express-did-auth/server-kit'
import { limitMilliseconds, MIN_BYTES_PER_SECOND } from '../config/time-limits.js'

/**
 * Budget of bytes that may be acquired at the same time: in total, for each owner (default: a quarter), and for the
 * site of an owner that is a client network (twice as much).
 */
export class ByteBudget {
  readonly #maxBytes: number
  readonly #maxBytesPerOwner: number
  readonly #shares: NetworkShares
  #bytes = 0

  constructor({ maxBytes, maxBytesPerOwner = maxBytes / 4 }: { maxBytes: number; maxBytesPerOwner?: number }) {
    this.#maxBytes = maxBytes
    this.#maxBytesPerOwner = maxBytesPerOwner
    this.#shares = new NetworkShares(maxBytesPerOwner)
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
    const hasRoom = owner === undefined || this.#shares.hasRoom(owner, countedBytes)
    if (this.#bytes + countedBytes > this.#maxBytes || !hasRoom) return undefined
    this.#add(countedBytes, owner)
    let isReleased = false
    return () => {
      if (!isReleased) this.#add(-countedBytes, owner)
      isReleased = true
    }
  }

  #add(bytes: number, owner: string | undefined): void {
    this.#bytes += bytes
    if (owner !== undefined) this.#shares.add(owner, bytes)
  }
}

/**
 * Watches the minimum rate of a transfer: 4 KiB/s after 5 s. A slower transfer is ended. A faster transfer may pause
 * for at most 15 s (uploads) or 120 s (downloads). `pause` and `resume` exclude the time that the server itself takes.
 */
export class MinimumRate {
  readonly #onTooSlow: () => void
  readonly #maxCreditMilliseconds: number
  /** Time at which the transfer is too slow, unless more bytes are transferred before. */
  #deadlineAt = performance.now() + limitMilliseconds.rateGrace
  #pausedAt: number | undefined
  #timer: NodeJS.Timeout | undefined

  /** @param onTooSlow - ends the transfer; called at most once @param maxCreditMilliseconds - maximum pause */
  constructor(onTooSlow: () => void, maxCreditMilliseconds = limitMilliseconds.uploadPause) {
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

/** Discards the rest of a body. Closing the connection while the client sends could destroy the response. */
export function discardRest(req: IncomingMessage): void {
  // An error without a listener would end the process.
  req.on('error', () => undefined).resume()
}

/**
 * Receives the body of a request in chunks, no faster than `use` processes them. After an error the rest of the body is
 * discarded.
 *
 * @param use - processes a chunk; the next chunk waits for its promise, and its error refuses the body
 * @throws DidAuthError ERR_JSON for an incomplete body, or one that was read before; ERR_REQUEST_TIMEOUT for a slow one
 */
export function receiveBody(req: IncomingMessage, use: (chunk: Buffer) => Promise<unknown> | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    let pendingUse: Promise<unknown> | undefined
    let isSettled = false
    /** Settles the promise, but only after `use` has ended: the caller then closes the file to which `use` writes. */
    const settle = (error?: Error): void => {
      if (isSettled) return
      isSettled = true
      rate.stop()
      req.off('data', onData).off('end', onEnd).off('error', onBroken).off('close', onBroken)
      if (error !== undefined) discardRest(req)
      const end = (failure?: unknown): void => {
        if (error === undefined && failure === undefined) resolve()
        else reject(error ?? (failure as Error))
      }
      void (pendingUse ?? Promise.resolve()).then(() => end(), end)
    }
    const rate = new MinimumRate(() => settle(new DidAuthError('ERR_REQUEST_TIMEOUT')))
    const onData = (chunk: Buffer): void => {
      rate.add(chunk.length)
      try {
        pendingUse = use(chunk)
      } catch (error) {
        settle(error as Error)
        return
      }
      if (pendingUse === undefined) return
      req.pause()
      rate.pause()
      pendingUse.then(() => {
        pendingUse = undefined
        if (isSettled) return
        rate.resume()
        req.resume()
      }, settle)
    }
    // The event `end` may be emitted while the request is paused after its last chunk.
    const onEnd = (): void => settle()
    const onBroken = (): void => settle(new DidAuthError('ERR_JSON'))
    if (req.destroyed || req.readableEnded) onBroken()
    else req.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken)
  })
}
