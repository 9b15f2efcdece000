import { decodeHex, encodeHex } from './encoding.js'

// Bundles for browsers contain this file, so it does not use Node's Buffer: personal-sign.ts parses signatures with it.

const CURVE_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
/** The order of P-256. */
export const P_256_ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n
const ORDER_BYTES = toBytes(CURVE_ORDER)
/** The smallest s that is high. */
const HIGH_S_BYTES = toBytes((CURVE_ORDER >> 1n) + 1n)

/** Whether r and s are in the curve's range, 1 to n - 1. @see SEC 1 version 2, section 4.1.4 */
export function isInRange(signature: Uint8Array): boolean {
  return [0, 32].every((start) => isBelow(signature, start, ORDER_BYTES) && !isZero(signature, start))
}

/**
 * Whether r and s are in the curve's range, and s is low. Every signature has a valid twin with n - s, so only the low
 * one is accepted.
 * @see EIP-2
 */
export function isLowS(signature: Uint8Array): boolean {
  return isInRange(signature) && isBelow(signature, 32, HIGH_S_BYTES)
}

/** Returns the signature with a low s: itself, or a copy with s replaced by n - s. An s out of range stays. */
export function toLowS(signature: Uint8Array, order = CURVE_ORDER): Uint8Array {
  const s = BigInt(`0x${encodeHex(signature.subarray(32, 64))}`)
  if (s <= order >> 1n || s >= order) return signature
  return Uint8Array.of(...signature.subarray(0, 32), ...toBytes(order - s))
}

/** Whether the 32 bytes from `start`, as a big-endian number, are below `bound`. */
function isBelow(bytes: Uint8Array, start: number, bound: Uint8Array): boolean {
  for (let index = 0; index < 32; index += 1) {
    const difference = (bytes[start + index] ?? 0) - (bound[index] ?? 0)
    if (difference !== 0) return difference < 0
  }
  return false
}

function isZero(bytes: Uint8Array, start: number): boolean {
  for (let index = start; index < start + 32; index += 1) if (bytes[index] !== 0) return false
  return true
}

function toBytes(value: bigint): Uint8Array {
  return decodeHex(value.toString(16).padStart(64, '0'))
}
