import { INSECURE } from './error-codes.js'
import { DidAuthClientError } from './errors.js'

export const KEY_BYTES = 32
export const IV_BYTES = 12
/** Bytes per piece of base64: a multiple of 3, so that pieces can be joined, and few enough for function arguments. */
const PIECE_BYTES = 24_576

/** Bytes that WebCrypto accepts. A caller's bytes are copied to this type, because they may be in shared memory. */
export type Bytes = Uint8Array<ArrayBuffer>

export const utf8 = (text: string): Bytes => new TextEncoder().encode(text)

/** Encodes a text as UTF-8. @throws TypeError for a lone surrogate, which UTF-8 cannot represent */
export function encodeUtf8(text: string): Bytes {
  const bytes = utf8(text)
  if (decodeUtf8(bytes) !== text) throw new TypeError('Lone surrogate')
  return bytes
}

/** Decodes UTF-8, and keeps a byte order mark at the beginning. */
export const decodeUtf8 = (bytes: Uint8Array): string => new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
export const randomBytes = (count: number): Bytes => crypto.getRandomValues(new Uint8Array(count))

/** Returns the operations of WebCrypto. @throws DidAuthClientError INSECURE on a page without https */
export function getSubtle(): typeof crypto.subtle {
  const { subtle } = crypto as Partial<typeof crypto>
  if (subtle) return subtle
  throw new DidAuthClientError(INSECURE, { message: 'No crypto.subtle: pages need https or localhost' })
}

/**
 * Encrypts or decrypts by AES-256-GCM (NIST SP 800-38D).
 *
 * @param context - additional data that is authenticated but not part of the result
 * @throws DidAuthClientError INSECURE; DOMException if key, IV, context or content differ from those of the encryption
 */
export async function crypt(
  verb: 'encrypt' | 'decrypt',
  key: Bytes,
  iv: Bytes,
  context: string,
  content: Bytes
): Promise<Bytes> {
  const subtle = getSubtle()
  const imported = await subtle.importKey('raw', key, 'AES-GCM', false, [verb])
  return new Uint8Array(await subtle[verb]({ name: 'AES-GCM', iv, additionalData: utf8(context) }, imported, content))
}

/** Concatenates bytes. */
export function concatBytes(parts: readonly ArrayLike<number>[]): Bytes {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let start = 0
  for (const part of parts) {
    bytes.set(part, start)
    start += part.length
  }
  return bytes
}

/** Encodes bytes as base64url without padding (RFC 4648, section 5). */
export function encodeBase64url(bytes: Bytes): string {
  let text = ''
  for (let start = 0; start < bytes.length; start += PIECE_BYTES) {
    text += btoa(String.fromCharCode(...bytes.subarray(start, start + PIECE_BYTES)))
  }
  return text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

/** Decodes base64url. @throws DOMException for other text */
export function decodeBase64url(text: string): Bytes {
  const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'))
  const bytes = new Uint8Array(binary.length)
  // This loop is 20 times as fast as Uint8Array.from for files of several megabytes.
  for (let index = 0; index < binary.length; index += 1) bytes[index] = binary.charCodeAt(index)
  return bytes
}

/** Encodes each byte as two hexadecimal digits. */
export function encodeHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => (byte + 256).toString(16).slice(1)).join('')
}

/** Returns 128 random bits in hex. */
export function createRandomText(): string {
  return encodeHex(randomBytes(16))
}
