// This file does not use Node's Buffer, so that it also runs in browsers and Workers.

const DIGITS = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/** Decodes hexadecimal digits without `0x`. Their number must be even. */
export function decodeHex(hex: string): Uint8Array {
  return Uint8Array.from({ length: hex.length / 2 }, (_, index) =>
    Number.parseInt(hex.slice(2 * index, 2 * index + 2), 16)
  )
}

/** Encodes bytes as lower-case hexadecimal without `0x`. */
export function encodeHex(bytes: Uint8Array): string {
  let hex = ''
  for (const byte of bytes) hex += DIGITS[byte] ?? ''
  return hex
}

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
const NO_LETTER = 0xff

/** The six bits of each letter, by its character code. */
const BITS = Uint8Array.from({ length: 128 }, (_, code) => {
  const index = LETTERS.indexOf(String.fromCharCode(code))
  return index === -1 ? NO_LETTER : index
})

/**
 * Decodes base64url in its canonical spelling: no padding, no other alphabet, unused bits zero. Otherwise a signed
 * token would have several spellings. The code does not use Node's Buffer, which browsers lack, and is as fast.
 * @returns undefined for any other text, also for an empty one
 * @see RFC 4648, sections 3.5 and 5
 */
export function decodeBase64url(text: string): Uint8Array | undefined {
  const remainder = text.length % 4
  if (text === '' || remainder === 1) return undefined
  // Padded with letters for zero; their bytes are cut off below.
  const letters = remainder === 0 ? text : text + 'AA'.slice(remainder - 2)
  const bytes = new Uint8Array((letters.length / 4) * 3)
  let allBits = 0
  for (let index = 0, end = 0; index < letters.length; index += 4) {
    const a = BITS[letters.charCodeAt(index)] ?? NO_LETTER
    const b = BITS[letters.charCodeAt(index + 1)] ?? NO_LETTER
    const c = BITS[letters.charCodeAt(index + 2)] ?? NO_LETTER
    const d = BITS[letters.charCodeAt(index + 3)] ?? NO_LETTER
    allBits |= a | b | c | d
    bytes[end++] = (a << 2) | (b >> 4)
    bytes[end++] = (b << 4) | (c >> 2)
    bytes[end++] = (c << 6) | d
  }
  if (allBits >= LETTERS.length) return undefined
  if (remainder === 0) return bytes
  const length = Math.floor((text.length * 3) / 4)
  return bytes.subarray(length).every((byte) => byte === 0) ? bytes.subarray(0, length) : undefined
}

/** Encodes bytes as base64url without padding. */
export function encodeBase64url(bytes: Uint8Array): string {
  const text = btoa(String.fromCharCode(...bytes))
  return text.replace(/[+/=]/g, (letter) => (letter === '+' ? '-' : letter === '/' ? '_' : ''))
}

/** Maximum length of Base58. Decoding is quadratic, and 67 bytes (codec and longest key) need only 92 characters. */
const MAX_BASE58_LENGTH = 128
const BASE58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'

/**
 * Decodes Base58 in the alphabet of Bitcoin. Two texts never have the same bytes.
 * @returns undefined for any other text, for an empty one, and for more than 128 characters
 * @see Internet-Draft draft-msporny-base58-03, section 4
 */
export function decodeBase58(text: string): Uint8Array | undefined {
  if (text === '' || text.length > MAX_BASE58_LENGTH) return undefined
  let number = 0n
  for (const letter of text) {
    const digit = BASE58.indexOf(letter)
    if (digit === -1) return undefined
    number = number * 58n + BigInt(digit)
  }
  const hex = number === 0n ? '' : number.toString(16)
  const zeros = /^1*/.exec(text)?.[0].length ?? 0
  return Uint8Array.of(...new Uint8Array(zeros), ...decodeHex(hex.length % 2 === 0 ? hex : `0${hex}`))
}

const RFC_3339 = /^(\d{4}-\d{2}-\d{2})T([01]\d|2[0-3]):\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/i

/**
 * Parses a date and time of RFC 3339.
 * @returns seconds since the Unix epoch; undefined for any other value, also for a leap second
 * @see RFC 3339, sections 5.6 and 5.7
 */
export function parseDateTime(value: unknown): number | undefined {
  const [text, day = ''] = typeof value === 'string' ? (RFC_3339.exec(value) ?? []) : []
  if (text === undefined) return undefined
  /* eslint-disable no-restricted-globals -- a full date-time with an offset reads no clock and no time zone */
  const milliseconds = Date.parse(text)
  // `Date.parse` accepts 30 February as 2 March.
  const isDay = new Date(`${day}T00:00:00Z`).getUTCDate() === Number(day.slice(-2))
  /* eslint-enable no-restricted-globals */
  return Number.isNaN(milliseconds) || !isDay ? undefined : milliseconds / 1000
}
