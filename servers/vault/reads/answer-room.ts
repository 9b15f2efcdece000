/** What answers hold in memory until they are taken, all together. */
const MAX_HELD_BYTES = 134_217_728
/** As much as a connection costs anyway is not counted, so that small answers always find room. */
const UNCOUNTED_BYTES = 65_536
/** A reader who has taken nothing for so long makes room for others. */
const SLOW_MILLISECONDS = 10_000

/** Whoever memory is held for: a response. */
export interface Holder {
  once(event: 'close', listener: () => void): unknown
  destroy(): unknown
}

interface Held {
  bytes: number
  sinceMilliseconds: number
}

/** Bounds the memory of answers whose readers are slow. What is held goes with its connection. */
export class AnswerRoom {
  readonly #maxBytes: number
  readonly #nowMilliseconds: () => number
  /** Who took something last is last. */
  readonly #held = new Map<Holder, Held>()
  #bytes = 0

  constructor(maxBytes = MAX_HELD_BYTES, nowMilliseconds = (): number => performance.now()) {
    this.#maxBytes = maxBytes
    this.#nowMilliseconds = nowMilliseconds
  }

  /** Bytes that are held now. */
  get bytes(): number {
    return this.#bytes
  }

  /**
   * Makes room for all that an answer holds from now on; those who take nothing are let go of for it. False: there is no
   * room, and the answer holds what it held.
   */
  hold(holder: Holder, bytes: number): boolean {
    const before = this.#held.get(holder)?.bytes ?? 0
    const more = (bytes <= UNCOUNTED_BYTES ? 0 : bytes) - before
    if (more > 0 && !this.#makeRoom(holder, more)) return false
    this.#bytes += more
    if (!this.#held.delete(holder) && before + more > 0)
      holder.once('close', () => {
        this.#release(holder)
      })
    if (before + more > 0) this.#held.set(holder, { bytes: before + more, sinceMilliseconds: this.#nowMilliseconds() })
    return true
  }

  /** The reader of an answer takes it. */
  renew(holder: Holder): void {
    const held = this.#held.get(holder)
    if (held === undefined) return
    this.#held.delete(holder)
    this.#held.set(holder, { ...held, sinceMilliseconds: this.#nowMilliseconds() })
  }

  #makeRoom(asking: Holder, bytes: number): boolean {
    const slowSince = this.#nowMilliseconds() - SLOW_MILLISECONDS
    for (const [holder, { sinceMilliseconds }] of this.#held) {
      if (this.#bytes + bytes <= this.#maxBytes || sinceMilliseconds > slowSince) break
      if (holder === asking) continue
      this.#release(holder)
      holder.destroy()
    }
    return this.#bytes + bytes <= this.#maxBytes
  }

  #release(holder: Holder): void {
    this.#bytes -= this.#held.get(holder)?.bytes ?? 0
    this.#held.delete(holder)
  }
}
