import { DidAuthError } from 'express-did-auth'

/** Bytes of uploads that are in memory at once, all together: 256 MiB, and what is around the largest text in a body. */
const MAX_ARRIVING_BYTES = 268_435_456 + 4 * 1_024
/** What is not longer is bounded by the number of connections, so that logins pass while uploads wait. */
const SMALL_BYTES = 65_536
/** One holder takes at most such a part of the room. */
const SHARES = 4

/** Bounds of a room. */
export interface UploadRoomOptions {
  maxBytes: number
  /** Things of so many bytes, and shorter ones, need no room. */
  smallBytes?: number
}

/** What may be held in memory of things that are not yet complete. A count and no more: whoever takes has to give back. */
export class UploadRoom {
  readonly #maxBytes: number
  readonly #smallBytes: number
  readonly #held = new Map<string, number>()
  #bytes = 0

  constructor({ maxBytes, smallBytes = SMALL_BYTES }: UploadRoomOptions) {
    this.#maxBytes = maxBytes
    this.#smallBytes = smallBytes
  }

  /** Bytes that are taken now. */
  get bytes(): number {
    return this.#bytes
  }

  /** Whether a thing of at most so many bytes needs no room. */
  isSmall(maxBytes: number): boolean {
    return maxBytes <= this.#smallBytes
  }

  /**
   * False when there is no room for them, and then nothing is taken.
   *
   * @param holder - for whom; a quarter of the room is all that one may have
   */
  take(bytes: number, holder?: string): boolean {
    if (this.#bytes + bytes > this.#maxBytes) return false
    if (holder !== undefined) {
      const held = (this.#held.get(holder) ?? 0) + bytes
      if (held > this.#maxBytes / SHARES) return false
      this.#held.set(holder, held)
    }
    this.#bytes += bytes
    return true
  }

  /** @param holder - as it was taken */
  give(bytes: number, holder?: string): void {
    this.#bytes -= bytes
    if (holder === undefined) return
    const left = (this.#held.get(holder) ?? 0) - bytes
    if (left > 0) this.#held.set(holder, left)
    else this.#held.delete(holder)
  }

  /**
   * Counts bytes for as long as work is under way.
   *
   * @throws DidAuthError ERR_BUSY when there is no room; whatever the work throws
   */
  async hold<T>(bytes: number, holder: string, work: () => Promise<T>): Promise<T> {
    if (this.isSmall(bytes)) return work()
    if (!this.take(bytes, holder)) throw new DidAuthError('ERR_BUSY')
    try {
      return await work()
    } finally {
      this.give(bytes, holder)
    }
  }
}

/** One for all servers of a process, because they share its memory. */
export const uploadRoom = new UploadRoom({ maxBytes: MAX_ARRIVING_BYTES })
