/** Of files that memory has let go of while somebody still takes them. */
const MAX_BYTES = 134_217_728

/** Who takes an answer: a response. */
export interface Reader {
  destroy(): unknown
}

/**
 * Bounds what slow readers keep alive: an answer that is being sent stays until its last reader has it, also when memory
 * has let go of the file. Above the bound, those of the file that went first are cut off: nobody new is refused.
 */
export class SlowReaders {
  readonly #maxBytes: number
  readonly #readers = new Map<Buffer, Set<Reader>>()
  /** Of these answers, those that memory has let go of, in this order. */
  readonly #gone = new Set<Buffer>()
  #bytes = 0

  constructor(maxBytes = MAX_BYTES) {
    this.#maxBytes = maxBytes
  }

  /** Bytes that only readers keep alive. */
  get bytes(): number {
    return this.#bytes
  }

  /** @param answer - of a file that is in memory */
  add(reader: Reader, answer: Buffer): void {
    const readers = this.#readers.get(answer)
    if (readers === undefined) this.#readers.set(answer, new Set([reader]))
    else readers.add(reader)
  }

  remove(reader: Reader, answer: Buffer): void {
    const readers = this.#readers.get(answer)
    readers?.delete(reader)
    if (readers?.size === 0) this.#forget(answer)
  }

  /** Memory lets go of a file. */
  letGo(answer: Buffer): void {
    if (!this.#readers.has(answer)) return
    this.#gone.add(answer)
    this.#bytes += answer.buffer.byteLength
    for (const first of this.#gone) {
      if (this.#bytes <= this.#maxBytes) break
      const readers = this.#readers.get(first) ?? []
      this.#forget(first)
      for (const reader of readers) reader.destroy()
    }
  }

  #forget(answer: Buffer): void {
    this.#readers.delete(answer)
    if (this.#gone.delete(answer)) this.#bytes -= answer.buffer.byteLength
  }
}
