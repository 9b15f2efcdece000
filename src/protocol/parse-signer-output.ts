import { Buffer } from 'node:buffer'
import { isInRange, toLowS } from './ecdsa-signature.js'
import { isObject } from './json.js'

/**
 * The 64 bytes, with low s, of what a did-jwt ES256K signer returns: base64url of 64 or 65 bytes, or r and s in
 * hexadecimal.
 *
 * @returns undefined for anything else
 * @see did-jwt, type `Signer`
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
