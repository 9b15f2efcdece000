import { decodeBase64url } from './encoding.js'
import type { Curve } from './curve.js'
import { isLowS } from './ecdsa-signature.js'
import { isObject } from './json.js'

/** A well-formed compact JWS. Its signature is not verified yet. */
export interface ParsedJwt {
  /** Decoded header. Its members are not checked. */
  header: Record<string, unknown>
  /** Decoded claims. They are not checked. */
  payload: Record<string, unknown>
  /** The signed text: header and payload, as received. */
  signingInput: string
  /** Decoded signature, of any length. */
  signature: Uint8Array
}

/** Encoded `{"alg":"ES256K","typ":"JWT"}`, the header of all JWTs that services sign. It needs no decoding. */
const ES256K_HEADER = 'eyJhbGciOiJFUzI1NksiLCJ0eXAiOiJKV1QifQ'
const PLAIN_HEADER = Object.freeze({ alg: 'ES256K', typ: 'JWT' })

const UTF_8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Parses a compact JWT: three parts of canonical base64url, of which the first two are JSON objects in UTF-8.
 * @param maxBytes - maximum length; a longer string is refused without parsing
 * @returns undefined for any other value
 * @see RFC 7515, section 7.1
 */
export function parseJwt(jwt: unknown, maxBytes: number): ParsedJwt | undefined {
  if (typeof jwt !== 'string' || jwt.length > maxBytes) return undefined
  const [headerPart = '', payloadPart = '', signaturePart = '', fourthPart] = jwt.split('.', 4)
  if (fourthPart !== undefined) return undefined
  const header = headerPart === ES256K_HEADER ? PLAIN_HEADER : parseJsonPart(headerPart)
  const payload = parseJsonPart(payloadPart)
  const signature = decodeBase64url(signaturePart)
  if (header === undefined || payload === undefined || signature === undefined) return undefined
  return { header, payload, signature, signingInput: jwt.slice(0, headerPart.length + 1 + payloadPart.length) }
}

function parseJsonPart(part: string): Record<string, unknown> | undefined {
  const bytes = decodeBase64url(part)
  if (bytes === undefined) return undefined
  try {
    const value: unknown = JSON.parse(UTF_8.decode(bytes))
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Whether a header has `alg` ES256K, `typ` JWT or none, and no other field. */
export function isPlainEs256kHeader(header: Record<string, unknown>): boolean {
  const { alg, typ = 'JWT', ...others } = header
  return alg === 'ES256K' && typ === 'JWT' && Object.keys(others).length === 0
}

/** Whether a public key made an ES256K signature. A high s is refused. @see RFC 8812, section 3.2 */
export function isSignedBy(curve: Pick<Curve, 'sha256' | 'verify'>, jwt: ParsedJwt, publicKey: Uint8Array): boolean {
  return (
    jwt.signature.length === 64 &&
    isLowS(jwt.signature) &&
    curve.verify(curve.sha256(jwt.signingInput), jwt.signature, publicKey)
  )
}
