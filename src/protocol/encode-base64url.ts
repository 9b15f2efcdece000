import { Buffer } from 'node:buffer'

/** Base64url without padding (RFC 4648, section 5). A string is encoded as UTF-8. */
export function encodeBase64url(data: string | Uint8Array): string {
  return (
    typeof data === 'string' ? Buffer.from(data) : Buffer.from(data.buffer, data.byteOffset, data.length)
  ).toString('base64url')
}
