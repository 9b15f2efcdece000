/** Below this a loop is faster than a view on four bytes at a time. */
const SHORT_BYTES = 64

/** How `JSON.stringify` writes each character of ASCII inside a string. */
const ESCAPES = Array.from({ length: 0x80 }, (_, code) => JSON.stringify(String.fromCharCode(code)).slice(1, -1))
/** How long each byte of UTF-8 becomes. */
const LENGTHS = Uint8Array.from({ length: 0x100 }, (_, byte) => ESCAPES[byte]?.length ?? 1)

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
    } else end += escaped.write(ESCAPES[byte] ?? '', end, 'latin1')
  }
  return escaped
}

function isControl(byte: number): boolean {
  return byte < 0x20
}
