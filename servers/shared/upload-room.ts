/** Bytes of uploads that arrive at once, all together. */
const MAX_ARRIVING_BYTES = 268_435_456

/** What may be held in memory of things that are not yet complete. A count and no more: whoever takes has to give back. */
export class UploadRoom {
  readonly #maxBytes: number
  #bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Bytes that are taken now. */
  get bytes(): number {
    return this.#bytes
  }

  /** False when there is no room for them, and then nothing is taken. */
  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#maxBytes) return false
    this.#bytes += bytes
    return true
  }

  give(bytes: number): void {
    this.#bytes -= bytes
  }
}

/** One for all servers of a process, because they share its memory. */
export const uploadRoom = new UploadRoom(MAX_ARRIVING_BYTES)
