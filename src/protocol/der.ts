import { encodeHex } from './encoding.js'
import { isBytes } from './is-bytes.js'

const HALF_BYTES = 32
const INTEGER = 0x02
const SEQUENCE = 0x30

/**
 * Parses an ECDSA signature in DER, as key management services return it, for a curve of 256 bits.
 *
 * @returns 64 bytes, r then s, as JOSE needs them; undefined for anything but one SEQUENCE of two positive INTEGERs
 * @see RFC 3279, section 2.2.3; RFC 7518, section 3.4
 */
export function parseDerSignature(der: unknown): Uint8Array | undefined {
  // Two integers of at most 33 bytes keep every length below 128, which DER encodes in one byte.
  if (!isBytes(der) || der[0] !== SEQUENCE || der[1] !== der.length - 2) return undefined
  const rEnd = 4 + (der[3] ?? 0)
  const [r, s] = [parseInteger(der.subarray(2, rEnd)), parseInteger(der.subarray(rEnd))]
  return r && s && Uint8Array.of(...r, ...s)
}

/** Parses a positive INTEGER to 32 bytes. DER omits zero bytes at the start, or adds one before a high first bit. */
function parseInteger(der: Uint8Array): Uint8Array | undefined {
  const bytes = der.subarray(2)
  if (der[0] !== INTEGER || der[1] !== bytes.length || bytes.length === 0) return undefined
  const [first = 0, second = 0] = bytes
  const hasExtraZero = first === 0 && bytes.length > 1
  if (first > 0x7f || (hasExtraZero && second <= 0x7f)) return undefined
  const digits = hasExtraZero ? bytes.subarray(1) : bytes
  if (digits.length > HALF_BYTES) return undefined
  const padded = new Uint8Array(HALF_BYTES)
  padded.set(digits, HALF_BYTES - digits.length)
  return padded
}

/** A public key of a curve of 256 bits. */
export interface EcPublicKey {
  /** Curve by its JOSE name. */
  curve: 'secp256k1' | 'P-256'
  /** Uncompressed point: 4, x, y, 65 bytes. It may not be on the curve. */
  point: Uint8Array
}

/** Everything before the point in a SubjectPublicKeyInfo, whose algorithm names the curve. @see RFC 5480, section 2 */
const PREFIXES = [
  ['secp256k1', '3056301006072a8648ce3d020106052b8104000a034200'],
  ['P-256', '3059301306072a8648ce3d020106082a8648ce3d030107034200']
] as const

const PEM = /^\s*-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]{1,400})-----END PUBLIC KEY-----\s*$/

/**
 * Parses a public key in the form of key management services: SubjectPublicKeyInfo, as DER or PEM.
 *
 * @returns undefined for other keys, and for a compressed point
 */
export function parsePublicKey(publicKey: unknown): EcPublicKey | undefined {
  const der = typeof publicKey === 'string' ? decodePem(publicKey) : publicKey
  if (!isBytes(der)) return undefined
  const point = der.subarray(-65)
  const prefix = encodeHex(der.subarray(0, -65))
  const found = point[0] === 4 ? PREFIXES.find(([, expected]) => expected === prefix) : undefined
  return found && { curve: found[0], point: Uint8Array.from(point) }
}

function decodePem(text: string): Uint8Array | undefined {
  const base64 = PEM.exec(text)?.[1]?.replace(/\s/g, '')
  if (base64 === undefined) return undefined
  try {
    return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))
  } catch {
    return undefined
  }
}
