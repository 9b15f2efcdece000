import { isUtf8 } from 'node:buffer'

const QUOTE = 0x22
const BACKSLASH = 0x5c
/** `{"` and `"}`. */
const OPENING = 0x7b22
const CLOSING = 0x227d

/** What a body may have beside its one text: objects and arrays without end take a hundred times their size to parse. */
const MAX_BYTES_AROUND = 1_024
const MAX_STRINGS = 64

/** Text in both of its forms, which are the same bytes for most of it. */
export interface JsonText {
  /** UTF-8. */
  bytes: Buffer
  /** The same as a JSON string, with its quotes. */
  json: Buffer
}

/**
 * The text in a JSON body of one field, `{"<field>":"…"}`.
 *
 * A body that is spelled in just this way and escapes nothing is taken as it is, without being copied: to parse a body of
 * a mebibyte takes as long as to hash it. Anything else is parsed as JSON, unless there is much more in it than a text.
 *
 * @returns undefined when the field holds no string, or one that UTF-8 cannot carry, or there is more than 1 KiB outside
 * of strings, or more than 64 strings
 * @throws SyntaxError when the body is no JSON
 */
export function textInBody(body: Buffer, field: string): JsonText | undefined {
  return plainText(body, field) ?? parsedText(body, field)
}

/** As a JSON string, with its quotes. Content that needs no escape is copied, and not decoded and encoded again. */
export function jsonOf(bytes: Buffer): Buffer {
  if (needsNoEscape(bytes)) return Buffer.concat([Buffer.from('"'), bytes, Buffer.from('"')])
  return Buffer.from(JSON.stringify(bytes.toString()))
}

function plainText(body: Buffer, field: string): JsonText | undefined {
  const start = field.length + 5
  if (body.length < start + 2 || body.readUInt16BE(0) !== OPENING) return undefined
  if (body.toString('latin1', 0, start) !== `{"${field}":"` || body.readUInt16BE(body.length - 2) !== CLOSING)
    return undefined
  const bytes = body.subarray(start, -2)
  if (!needsNoEscape(bytes) || !isUtf8(bytes)) return undefined
  return { bytes, json: body.subarray(start - 1, -1) }
}

const UTF_8 = new TextDecoder('utf-8', { fatal: true })

function parsedText(body: Buffer, field: string): JsonText | undefined {
  if (!isUtf8(body)) throw new SyntaxError('no UTF-8')
  if (!isMostlyText(body)) return undefined
  const value: unknown = JSON.parse(UTF_8.decode(body))
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  const text = isObject && Object.hasOwn(value, field) ? (value as Record<string, unknown>)[field] : undefined
  if (typeof text !== 'string' || !text.isWellFormed()) return undefined
  return { bytes: Buffer.from(text), json: Buffer.from(JSON.stringify(text)) }
}

/** Whether a body is one text with little around it. What is no JSON may be either: parsing tells. */
function isMostlyText(body: Buffer): boolean {
  let [bytesAround, strings, isInString] = [0, 0, false]
  for (let index = 0; index < body.length; index += 1) {
    const byte = body[index]
    if (byte === QUOTE) {
      isInString = !isInString
      if (isInString) strings += 1
    } else if (!isInString) bytesAround += 1
    else if (byte === BACKSLASH) index += 1
    if (bytesAround > MAX_BYTES_AROUND || strings > MAX_STRINGS) return false
  }
  return true
}

/** Whether bytes are the inside of a JSON string as they are: no quote, backslash or control character. */
function needsNoEscape(bytes: Buffer): boolean {
  if (bytes.includes(QUOTE) || bytes.includes(BACKSLASH)) return false
  return !hasControlCharacter(bytes)
}

/**
 * Four bytes at a time: taking 0x20 from a byte below it borrows, which leaves its high bit set. By index and without an
 * early end, because that is five times as fast.
 */
function hasControlCharacter(bytes: Buffer): boolean {
  const isControl = (byte: number): boolean => byte < 0x20
  const head = -bytes.byteOffset & 3
  if (bytes.length < head) return bytes.some(isControl)
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
