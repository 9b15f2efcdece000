/** Each piece costs memory beside its bytes, and a client may send pieces of one byte: so many are joined. */
const MAX_LOOSE = 512

/** A body as it arrives. */
export class ArrivingBody {
  readonly #joined: Buffer[] = []
  #loose: Buffer[] = []
  #size = 0

  /** In bytes. */
  get size(): number {
    return this.#size
  }

  add(piece: Buffer): void {
    this.#size += piece.length
    this.#loose.push(piece)
    if (this.#loose.length < MAX_LOOSE) return
    this.#joined.push(Buffer.concat(this.#loose))
    this.#loose = []
  }

  /** Forgets all of it. */
  drop(): void {
    this.#joined.length = 0
    this.#loose = []
  }

  /** All of it; the piece itself when there is just one. */
  whole(): Buffer {
    const pieces = [...this.#joined, ...this.#loose]
    const [only] = pieces
    return pieces.length === 1 && only !== undefined ? only : Buffer.concat(pieces)
  }
}
