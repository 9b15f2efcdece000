import { encodeHex } from './encoding.js'

/** Little-endian `y` of the points of small order, 0, 1, -1 and the two of order 8, in hexadecimal without the sign. */
const SMALL_ORDER: ReadonlySet<string> = new Set([
  '00'.repeat(32),
  `01${'00'.repeat(31)}`,
  `ec${'ff'.repeat(30)}7f`,
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a'
])

/** A `y` of at least the prime 2^255 - 19, which has another spelling below it. */
const NOT_REDUCED = /^(?:e[d-f]|f.)(?:ff){30}7f$/

/**
 * Whether bytes have the form of an Ed25519 public key. For a point of small order, anybody can make signatures
 * without a private key. A second spelling of a point would be a second DID of one key. The bytes may still be no point
 * of the curve.
 * @see RFC 8032, section 5.1.3; "Taming the many EdDSAs" (2020), section 4
 */
export function isEd25519Key(bytes: Uint8Array): boolean {
  if (bytes.length !== 32) return false
  const y = encodeHex(bytes.with(31, (bytes[31] ?? 0) & 0x7f))
  return !SMALL_ORDER.has(y) && !NOT_REDUCED.test(y)
}
