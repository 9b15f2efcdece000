/** Each piece costs memory beside its bytes, and a client may send pieces of one byte: so many are joined. */
const MAX_LOOSE = 512

/** A body as it arrives. */
export class ArrivingBody {
  readonly #announcedBytes: number
  #whole: Buffer | undefined
  #joined: Buffer[] = []
  #loose: Buffer[] = []
  #size = 0

  /** @param announcedBytes - 0 when its length is not known before */
  constructor(announcedBytes: number) {
    this.#announcedBytes = announcedBytes
  }

  /** What has arrived, in bytes. */
  get size(): number {
    return this.#size
  }

  add(piece: Buffer): void {
    const start = this.#size
    this.#size += piece.length
    if (this.#announcedBytes > piece.length) {
      // Copied while the processor still has it at hand. What is not yet written to takes no memory.
      this.#whole ??= Buffer.allocUnsafeSlow(this.#announcedBytes)
      piece.copy(this.#whole, start)
      return
    }
    this.#loose.push(piece)
    if (this.#loose.length < MAX_LOOSE) return
    this.#joined.push(Buffer.concat(this.#loose))
    this.#loose = []
  }

  /** Forgets all of it. */
  drop(): void {
    this.#whole = undefined
    this.#joined = []
    this.#loose = []
  }

  /** All of it, once it is there; the piece itself when there is just one. */
  whole(): Buffer {
    if (this.#whole !== undefined) return this.#whole
    const pieces = [...this.#joined, ...this.#loose]
    const [only] = pieces
    return pieces.length === 1 && only !== undefined ? only : Buffer.concat(pieces)
  }
}
