import { Buffer } from 'node:buffer'

const ALPHABET = /^[A-Za-z0-9_-]+$/

/** Base64url without padding (RFC 4648, section 5). A string is encoded as UTF-8. */
export function encodeBase64url(data: string | Uint8Array): string {
  return (
    typeof data === 'string' ? Buffer.from(data) : Buffer.from(data.buffer, data.byteOffset, data.length)
  ).toString('base64url')
}

/**
 * Decodes base64url in its only canonical spelling: no padding, no other alphabet, unused bits zero. Without that rule
 * one signed token would have many spellings.
 *
 * @returns the bytes, or undefined when `text` is empty or not canonical
 * @see RFC 4648, sections 3.5 and 5
 */
export function decodeBase64url(text: string): Buffer | undefined {
  if (!ALPHABET.test(text)) return undefined
  const bytes = Buffer.from(text, 'base64url')
  return bytes.toString('base64url') === text ? bytes : undefined
}
