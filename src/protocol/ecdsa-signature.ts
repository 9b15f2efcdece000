import { Buffer } from 'node:buffer'
import { DidAuthError, type RefusalReason } from '../errors.js'
import type { RecoverableSignature } from './curve.js'
import { decodeHex, encodeHex } from './encoding.js'
import { isObject } from './json.js'

const CURVE_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
/** The order of P-256. */
export const P_256_ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n
const ORDER_BYTES = toBytes(CURVE_ORDER)
/** The smallest s that is high. */
const HIGH_S_BYTES = toBytes((CURVE_ORDER >> 1n) + 1n)

const SIGNATURE = /^0x[0-9a-fA-F]{130}$/
const EIP_155_CHAIN_IDS: readonly number[] = [1, 30, 31]

/**
 * Parses the result of `personal_sign`: `0x` and 65 bytes in hexadecimal (r, s, v), with a low s. Everything else is
 * refused before any computation on the curve.
 * @param chainId - chain of the user's DID, if known. EIP-155 values of v are accepted for it, Ethereum main net and
 * both Rootstock networks. If any chain were accepted, each signature would have a hundred spellings
 * @throws DidAuthError ERR_SIGNATURE
 * @see EIP-191, EIP-155, EIP-2
 */
export function parseSignature(value: unknown, chainId?: number): RecoverableSignature {
  if (typeof value !== 'string' || !SIGNATURE.test(value)) {
    throw createRefusal({ check: 'sig', expected: '0x and 130 hexadecimal digits', got: typeof value })
  }
  const bytes = Buffer.from(value.slice(2, 130), 'hex')
  const recovery = parseRecovery(Number.parseInt(value.slice(130), 16), chainId)
  if (recovery === undefined) throw createRefusal({ check: 'v', expected: '0, 1, 27, 28, or EIP-155 of a known chain' })
  if (!isLowS(bytes)) throw createRefusal({ check: 'r, s', expected: 'in range, with a low s' })
  return { bytes, recovery }
}

function createRefusal(reason: RefusalReason): DidAuthError {
  return new DidAuthError('ERR_SIGNATURE', { reason })
}

function parseRecovery(v: number, chainId: number | undefined): 0 | 1 | undefined {
  if (v === 0 || v === 27) return 0
  if (v === 1 || v === 28) return 1
  if (v < 35) return undefined
  const signedChainId = (v - 35) >> 1
  if (signedChainId !== chainId && !EIP_155_CHAIN_IDS.includes(signedChainId)) return undefined
  return (v - 35) % 2 === 0 ? 0 : 1
}

/**
 * Parses the output of a did-jwt signer.
 * @returns 64 bytes with a low s; undefined for any other value
 * @see did-jwt, `Signer`
 */
export function parseSignerOutput(output: unknown): Uint8Array | undefined {
  const bytes = typeof output === 'string' ? Buffer.from(output, 'base64url') : parseEcdsaSignature(output)
  if (bytes === undefined || (bytes.length !== 64 && bytes.length !== 65)) return undefined
  const signature = bytes.subarray(0, 64)
  return isInRange(signature) ? toLowS(signature) : undefined
}

function parseEcdsaSignature(output: unknown): Buffer | undefined {
  if (!isObject(output) || !isHex32(output.r) || !isHex32(output.s)) return undefined
  return Buffer.from([output.r, output.s].map((half) => half.replace(/^0x/, '').padStart(64, '0')).join(''), 'hex')
}

function isHex32(value: unknown): value is string {
  return typeof value === 'string' && /^(?:0x)?[0-9a-fA-F]{1,64}$/.test(value)
}

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
