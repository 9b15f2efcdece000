import { isUtf8 } from 'node:buffer'

const NOTHING = Buffer.alloc(0)

/** Tells whether bytes that arrive in chunks are UTF-8: a character may be cut anywhere. */
export class Utf8Check {
  /** The beginning of a character that the next chunk continues. */
  #begun: Buffer = NOTHING

  /** Whether the last chunk ended with a whole character. */
  get isComplete(): boolean {
    return this.#begun.length === 0
  }

  /** False when the bytes so far cannot be the beginning of UTF-8. */
  accepts(chunk: Buffer): boolean {
    const missing = this.isComplete ? 0 : sequenceLength(this.#begun[0]) - this.#begun.length
    if (missing > 0) {
      this.#begun = Buffer.concat([this.#begun, chunk.subarray(0, missing)])
      if (chunk.length < missing) return true
      if (!isUtf8(this.#begun)) return false
    }
    const end = endOfCharacters(chunk, missing)
    this.#begun = end === chunk.length ? NOTHING : Buffer.from(chunk.subarray(end))
    return isUtf8(chunk.subarray(missing, end))
  }
}

/** Where the last whole character ends. A character has at most four bytes. */
function endOfCharacters(bytes: Buffer, start: number): number {
  for (let index = bytes.length - 1; index >= Math.max(start, bytes.length - 3); index -= 1) {
    const byte = bytes[index] ?? 0
    const isContinuation = byte >= 0x80 && byte < 0xc0
    if (!isContinuation) return index + sequenceLength(byte) > bytes.length ? index : bytes.length
  }
  return bytes.length
}

/** Bytes of the character that begins with this one. */
function sequenceLength(first = 0): number {
  if (first < 0xc0) return 1
  if (first < 0xe0) return 2
  return first < 0xf0 ? 3 : 4
}
