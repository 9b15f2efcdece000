import { Buffer } from 'node:buffer'
import { DidAuthError, type RefusalReason } from '../errors.js'
import type { RecoverableSignature } from './curve.js'
import { isInRange, isLowS, toLowS } from './ecdsa-signature.js'
import { isObject } from './json.js'

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
