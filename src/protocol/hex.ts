/** Hexadecimal without the Buffer of Node, so that what needs it runs anywhere. */

const DIGITS = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/** The bytes of an even number of hexadecimal digits, without `0x`. */
export function bytesOfHex(hex: string): Uint8Array {
  return Uint8Array.from({ length: hex.length / 2 }, (_, index) =>
    Number.parseInt(hex.slice(2 * index, 2 * index + 2), 16)
  )
}

/** Lower-case hexadecimal without `0x`. */
export function hexOfBytes(bytes: Uint8Array): string {
  let hex = ''
  for (const byte of bytes) hex += DIGITS[byte] ?? ''
  return hex
}
