import { isUtf8 } from 'node:buffer'
import { DidAuthError } from 'express-did-auth'
import { JsonStringDecoder, QUOTE, type StringSink } from './json-string.js'
import { ServerError } from './server-error.js'

/** What a body may have beside its text: its structure is parsed in memory. */
const MAX_BYTES_AROUND = 1_024
const MAX_STRINGS = 64

const COLON = 0x3a
const OPENING: readonly number[] = [0x7b, 0x5b]
const CLOSING: readonly number[] = [0x7d, 0x5d]
const SPACE: readonly number[] = [0x20, 0x09, 0x0a, 0x0d]
const BYTE_ORDER_MARK: readonly number[] = [0xef, 0xbb, 0xbf]
const NO_BYTES = Buffer.alloc(0)

/** Where the text goes, part by part. */
export interface TextSink {
  write(bytes: Uint8Array): void
  /** The field begins, also for a second time: the last one counts. */
  restart(): void
}

/**
 * Decodes the text of one field while a JSON body arrives, as `JSON.parse` would read it, with bounded memory.
 *
 * Strings are decoded at once. What stands around them is small: it is left to `JSON.parse` at the end, with the number of
 * each string in its place.
 */
export class JsonTextDecoder implements StringSink {
  readonly #field: Buffer
  readonly #sink: TextSink
  readonly #utf8 = new Utf8Check()
  readonly #strings = new JsonStringDecoder(this)
  #position = 0
  /** The body with numbers for its strings. */
  #outline = ''
  #bytesAround = 0
  #stringCount = 0
  /** Numbers of the strings that equal the field's name. */
  readonly #named = new Set<number>()
  #depth = 0
  /** The last byte outside of strings that is no space; a quote for a string. */
  #last = 0

  #isInString = false
  /** Whether the string is the text. */
  #isText = false
  /** Bytes of the field's name that the string begins with; -1 where it differs. */
  #sameBytes = 0
  #textNumber = -1
  #isWellFormed = true
  #jsonByteCount = 0

  constructor(field: string, sink: TextSink) {
    this.#field = Buffer.from(field)
    this.#sink = sink
  }

  /**
   * Decodes the next part of the body.
   *
   * @throws ServerError ERR_CONTENT when there is more than 1 KiB outside of strings, or more than 64 strings;
   * DidAuthError ERR_JSON
   */
  write(chunk: Buffer): void {
    if (!this.#utf8.accepts(chunk)) throw new DidAuthError('ERR_JSON')
    this.#strings.begin(chunk)
    for (let index = 0; index < chunk.length; index += 1) {
      if (this.#isInString) {
        index = this.#strings.read(index)
        if (index < chunk.length) this.#endString()
      } else this.#readAround(chunk[index] ?? 0, this.#position + index)
    }
    this.#position += chunk.length
  }

  /**
   * To be called at the end of the body.
   *
   * @returns length of the text as a JSON string, in bytes, with its quotes
   * @throws ServerError ERR_CONTENT when the field holds no string, or one that UTF-8 cannot carry; DidAuthError ERR_JSON
   */
  end(): number {
    if (this.#position === 0) throw new ServerError('ERR_CONTENT')
    if (this.#isInString || !this.#utf8.isComplete) throw new DidAuthError('ERR_JSON')
    const outline = parseOutline(this.#outline)
    const name = Object.keys(outline)
      .filter((number) => this.#named.has(Number(number)))
      .at(-1)
    if (name === undefined || outline[name] !== String(this.#textNumber) || !this.#isWellFormed) {
      throw new ServerError('ERR_CONTENT')
    }
    return this.#jsonByteCount
  }

  /** A part of a string. */
  add(bytes: Buffer, jsonByteCount: number): void {
    if (this.#isText) {
      this.#jsonByteCount += jsonByteCount
      this.#sink.write(bytes)
    }
    if (this.#sameBytes < 0) return
    const end = this.#sameBytes + bytes.length
    this.#sameBytes = this.#field.subarray(this.#sameBytes, end).equals(bytes) ? end : -1
  }

  markIllFormed(): void {
    this.#sameBytes = -1
    if (this.#isText) this.#isWellFormed = false
  }

  #readAround(byte: number, position: number): void {
    if (byte === QUOTE) {
      this.#beginString()
      return
    }
    if (position < BYTE_ORDER_MARK.length && byte === BYTE_ORDER_MARK[position]) return
    this.#bytesAround += 1
    if (this.#bytesAround > MAX_BYTES_AROUND) throw new ServerError('ERR_CONTENT')
    this.#outline += String.fromCharCode(byte)
    this.#depth += Number(OPENING.includes(byte)) - Number(CLOSING.includes(byte))
    if (!SPACE.includes(byte)) this.#last = byte
  }

  #beginString(): void {
    if (this.#stringCount === MAX_STRINGS) throw new ServerError('ERR_CONTENT')
    // In what is no JSON this may be wrong: the outline tells.
    this.#isText = this.#depth === 1 && this.#last === COLON && this.#named.has(this.#stringCount - 1)
    this.#isInString = true
    this.#sameBytes = 0
    this.#outline += `"${this.#stringCount}"`
    if (!this.#isText) return
    this.#textNumber = this.#stringCount
    this.#isWellFormed = true
    this.#jsonByteCount = 2
    this.#sink.restart()
  }

  #endString(): void {
    this.#isInString = false
    this.#last = QUOTE
    if (this.#sameBytes === this.#field.length) this.#named.add(this.#stringCount)
    this.#stringCount += 1
  }
}

/** The top-level fields, by the numbers of strings; none for an array or a single value. */
function parseOutline(outline: string): Record<string, unknown> {
  let value: unknown
  try {
    value = JSON.parse(outline)
  } catch {
    // Without the cause: a parser's message quotes the body.
    throw new DidAuthError('ERR_JSON')
  }
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  return isObject ? (value as Record<string, unknown>) : {}
}

/** Tells whether bytes that arrive in chunks are UTF-8: a character may be cut anywhere. */
class Utf8Check {
  /** The beginning of a character that the next chunk continues. */
  #begun: Buffer = NO_BYTES

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
    this.#begun = end === chunk.length ? NO_BYTES : Buffer.from(chunk.subarray(end))
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
