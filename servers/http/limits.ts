import { DidAuthError } from 'express-did-auth'

export interface ByteBudgetOptions {
  /** For all owners together. */
  maxBytes: number
  /** For each of them. Default: a quarter of `maxBytes`. */
  maxBytesPerOwner?: number
}

/** Bytes in memory that are acquired for a while: so many in total, and so many for each owner. */
export class ByteBudget {
  readonly #maxBytes: number
  readonly #maxBytesPerOwner: number
  readonly #byOwner = new Map<string, number>()
  #bytes = 0

  constructor({ maxBytes, maxBytesPerOwner = maxBytes / 4 }: ByteBudgetOptions) {
    this.#maxBytes = maxBytes
    this.#maxBytesPerOwner = maxBytesPerOwner
  }

  /** Bytes that are acquired now. */
  get bytes(): number {
    return this.#bytes
  }

  /**
   * Acquires bytes at once, or refuses.
   *
   * @param owner - such as a canonical DID; absent: only the total counts
   * @returns releases them; calling it again changes nothing
   * @throws DidAuthError ERR_BUSY
   * @example
   * const release = budget.acquire(byteCount, did)
   * try { await send(await content.bytes()) } finally { release() }
   */
  acquire(bytes: number, owner?: string): () => void {
    const ofOwner = owner === undefined ? 0 : (this.#byOwner.get(owner) ?? 0) + bytes
    if (this.#bytes + bytes > this.#maxBytes || ofOwner > this.#maxBytesPerOwner) throw new DidAuthError('ERR_BUSY')
    this.#add(bytes, owner)
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      this.#add(-bytes, owner)
    }
  }

  #add(bytes: number, owner: string | undefined): void {
    this.#bytes += bytes
    if (owner === undefined) return
    const ofOwner = (this.#byOwner.get(owner) ?? 0) + bytes
    if (ofOwner > 0) this.#byOwner.set(owner, ofOwner)
    else this.#byOwner.delete(owner)
  }
}

export interface ConcurrencyLimits {
  maxRunning: number
  maxWaiting: number
  /** How long one waits at most. */
  timeoutMilliseconds: number
}

/** A response, of which `close` tells that its client has disconnected. */
interface Closing {
  readonly destroyed: boolean
  once(event: 'close', listener: () => void): unknown
  off(event: 'close', listener: () => void): unknown
}

/** Runs so much work at once, and lets so much wait, first come, first served. */
export class ConcurrencyLimiter {
  readonly #limits: ConcurrencyLimits
  /** Starts of what waits, in order. */
  readonly #waiting = new Set<() => void>()
  #running = 0

  constructor(limits: ConcurrencyLimits) {
    this.#limits = limits
  }

  /**
   * Runs work, now or when others have ended.
   *
   * @param response - of the request that it is for: when its client disconnects, it no longer waits
   * @throws DidAuthError ERR_BUSY when too many wait, when it has waited too long, and when the client has disconnected;
   * what the work throws
   */
  async run<T>(response: Closing, work: () => Promise<T>): Promise<T> {
    if (response.destroyed) throw new DidAuthError('ERR_BUSY')
    if (this.#running >= this.#limits.maxRunning) await this.#wait(response)
    else this.#running += 1
    try {
      return await work()
    } finally {
      const [next] = this.#waiting
      // The next one runs in this one's place, so that a newcomer cannot come before it.
      if (next === undefined) this.#running -= 1
      else next()
    }
  }

  #wait(response: Closing): Promise<void> {
    if (this.#waiting.size >= this.#limits.maxWaiting) throw new DidAuthError('ERR_BUSY')
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        clearTimeout(timer)
        response.off('close', refuse)
        this.#waiting.delete(start)
      }
      const start = (): void => {
        leave()
        resolve()
      }
      const refuse = (): void => {
        leave()
        reject(new DidAuthError('ERR_BUSY'))
      }
      const timer = setTimeout(refuse, this.#limits.timeoutMilliseconds)
      response.once('close', refuse)
      this.#waiting.add(start)
    })
  }
}
