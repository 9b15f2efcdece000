import { Buffer } from 'node:buffer'

const CURVE_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const ORDER_BYTES = bytesOf(CURVE_ORDER)
const HALF_ORDER_BYTES = bytesOf(CURVE_ORDER >> 1n)

/**
 * Whether r and s are in the curve's range, 1 to n - 1.
 *
 * @param signature - 64 bytes, r then s
 * @see SEC 1 version 2, section 4.1.4
 */
export function isInRange(signature: Uint8Array): boolean {
  return [signature.subarray(0, 32), signature.subarray(32, 64)].every(
    (half) => Buffer.compare(half, ORDER_BYTES) < 0 && half.some((byte) => byte !== 0)
  )
}

/**
 * Whether s is in the lower half of the curve's order. Every signature has a twin with the other s that verifies as
 * well; requiring the low one gives each signature a single spelling.
 *
 * @param signature - 64 bytes, r then s
 * @see EIP-2
 */
export function isLowS(signature: Uint8Array): boolean {
  return Buffer.compare(signature.subarray(32, 64), HALF_ORDER_BYTES) <= 0
}

/**
 * The low-s spelling of a signature: the same bytes, or a copy with s replaced by n - s.
 *
 * @param signature - 64 bytes, r then s
 */
export function toLowS(signature: Uint8Array): Uint8Array {
  if (isLowS(signature)) return signature
  const s = BigInt(`0x${Buffer.from(signature.subarray(32, 64)).toString('hex')}`)
  return Buffer.concat([signature.subarray(0, 32), bytesOf(CURVE_ORDER - s)])
}

function bytesOf(value: bigint): Uint8Array {
  return Buffer.from(value.toString(16).padStart(64, '0'), 'hex')
}
