import { DidAuthError } from 'express-did-auth'

export const QUOTE = 0x22
const BACKSLASH = 0x5c
const SMALL_U = 0x75
const HEX = /^[0-9a-fA-F]{4}$/
/** What each character after a backslash stands for. */
const ESCAPES = new Map(
  Object.entries({ '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }).map(
    ([letter, character]) => [letter.charCodeAt(0), Buffer.from(character)]
  )
)

/** Where a string goes, part by part. */
export interface StringSink {
  /** @param jsonByteCount - how long the part is in a JSON string */
  add(bytes: Uint8Array, jsonByteCount: number): void
  /** The string holds half a surrogate pair: JSON can spell it, UTF-8 cannot carry it. */
  markIllFormed(): void
}

/** Decodes the inside of JSON strings that arrive in chunks of UTF-8. */
export class JsonStringDecoder {
  readonly #sink: StringSink
  #chunk: Buffer = Buffer.alloc(0)
  #nextQuote = -1
  #nextBackslash = -1
  /** Looked for once in a chunk: almost none has any. */
  #hasControlCharacter = false
  /** An escape that has begun: its backslash, its u, its digits. */
  #escape = ''
  /** The first half of a surrogate pair, when it was the last character. */
  #high = 0

  constructor(sink: StringSink) {
    this.#sink = sink
  }

  /** Before the first `read` of each chunk. */
  begin(chunk: Buffer): void {
    this.#chunk = chunk
    this.#nextQuote = -1
    this.#nextBackslash = -1
    this.#hasControlCharacter = hasControlCharacter(chunk)
  }

  /**
   * Decodes up to the quote that ends the string, or up to the end of the chunk.
   *
   * @returns position of the quote, or the length of the chunk
   * @throws DidAuthError ERR_JSON
   */
  read(start: number): number {
    const chunk = this.#chunk
    for (let index = start; index < chunk.length;) {
      if (this.#escape !== '') {
        this.#unescape(chunk[index] ?? 0)
        index += 1
        continue
      }
      const end = this.#endOfRun(index)
      if (end > index) this.#addRun(chunk.subarray(index, end))
      if (chunk[end] === QUOTE) {
        this.#breakPair()
        return end
      }
      if (end < chunk.length) this.#escape = '\\'
      index = end + 1
    }
    return chunk.length
  }

  /** The next quote or backslash. Each is looked for once: they may be far from each other. */
  #endOfRun(start: number): number {
    if (this.#nextQuote < start) this.#nextQuote = this.#find(QUOTE, start)
    if (this.#nextBackslash < start) this.#nextBackslash = this.#find(BACKSLASH, start)
    return Math.min(this.#nextQuote, this.#nextBackslash)
  }

  #find(byte: number, start: number): number {
    const found = this.#chunk.indexOf(byte, start)
    return found === -1 ? this.#chunk.length : found
  }

  #addRun(bytes: Buffer): void {
    if (this.#hasControlCharacter && hasControlCharacter(bytes)) throw new DidAuthError('ERR_JSON')
    this.#breakPair()
    this.#sink.add(bytes, bytes.length)
  }

  #unescape(byte: number): void {
    this.#escape += String.fromCharCode(byte)
    if (this.#escape.length === 2 && byte !== SMALL_U) {
      const character = ESCAPES.get(byte)
      if (character === undefined) throw new DidAuthError('ERR_JSON')
      this.#escape = ''
      this.#breakPair()
      this.#sink.add(character, jsonBytesOf(character[0] ?? 0))
    } else if (this.#escape.length === 6) {
      const digits = this.#escape.slice(2)
      if (!HEX.test(digits)) throw new DidAuthError('ERR_JSON')
      this.#escape = ''
      this.#addUnit(Number.parseInt(digits, 16))
    }
  }

  /** Adds a code unit of UTF-16. */
  #addUnit(unit: number): void {
    const isLow = unit >= 0xdc00 && unit < 0xe000
    const isPair = isLow && this.#high !== 0
    const codePoint = isPair ? (this.#high - 0xd800) * 0x400 + (unit - 0xdc00) + 0x10000 : unit
    if (isPair) this.#high = 0
    else this.#breakPair()
    if (unit >= 0xd800 && unit < 0xdc00) this.#high = unit
    else if (isLow && !isPair) this.#sink.markIllFormed()
    else this.#sink.add(Buffer.from(String.fromCodePoint(codePoint)), jsonBytesOf(codePoint))
  }

  /** What comes now is no second half. */
  #breakPair(): void {
    if (this.#high !== 0) this.#sink.markIllFormed()
    this.#high = 0
  }
}

/** Below this a loop is faster than a view on four bytes at a time. */
const SHORT_BYTES = 64

/** How `JSON.stringify` writes each character of ASCII inside a string. */
const WRITTEN = Array.from({ length: 0x80 }, (_, code) => JSON.stringify(String.fromCharCode(code)).slice(1, -1))
/** How long each byte of UTF-8 becomes. */
const LENGTHS = Uint8Array.from({ length: 0x100 }, (_, byte) => WRITTEN[byte]?.length ?? 1)

/** Bytes that a character takes in a JSON string, as `JSON.stringify` writes it. */
export function jsonBytesOf(codePoint: number): number {
  if (codePoint < 0x80) return LENGTHS[codePoint] ?? 1
  if (codePoint < 0x800) return 2
  return codePoint < 0x10000 ? 3 : 4
}

/** Whether bytes have a control character, which a JSON string may hold as an escape only. */
export function hasControlCharacter(bytes: Uint8Array): boolean {
  if (bytes.length < SHORT_BYTES) return bytes.some(isControl)
  // Four bytes at a time: taking 0x20 from a byte below it borrows, which leaves its high bit set.
  const head = -bytes.byteOffset & 3
  const words = new Int32Array(bytes.buffer, bytes.byteOffset + head, (bytes.length - head) >>> 2)
  let borrowed = 0
  for (let index = 0; index < words.length; index += 1) {
    const word = words[index] ?? 0
    borrowed |= (word - 0x20202020) & ~word
  }
  return (
    (borrowed & 0x80808080) !== 0 ||
    bytes.subarray(0, head).some(isControl) ||
    bytes.subarray(head + words.length * 4).some(isControl)
  )
}

/**
 * Escapes a part of UTF-8 text for the inside of a JSON string, as `JSON.stringify` does. A part may begin or end within
 * a character: what needs an escape is ASCII.
 *
 * @returns the same bytes where nothing needs an escape
 */
export function escapeJson(bytes: Uint8Array): Uint8Array {
  if (!bytes.includes(0x22) && !bytes.includes(0x5c) && !hasControlCharacter(bytes)) return bytes
  let length = 0
  for (const byte of bytes) length += LENGTHS[byte] ?? 1
  const escaped = Buffer.allocUnsafeSlow(length)
  let end = 0
  for (const byte of bytes) {
    if (LENGTHS[byte] === 1) {
      escaped[end] = byte
      end += 1
    } else end += escaped.write(WRITTEN[byte] ?? '', end, 'latin1')
  }
  return escaped
}

function isControl(byte: number): boolean {
  return byte < 0x20
}
