import { randomBytes } from 'node:crypto'
import type { Curve } from 'express-did-auth'
import { addressOfPublicKey } from 'express-did-auth/protocol'

/** A wallet that was never used before. */
export interface User {
  did: string
  /** `personal_sign`: 65 bytes with `0x`. */
  sign(message: string): string
}

/** Makes a user whose key is forgotten with it. */
export function newUser(curve: Curve): User {
  const key = randomBytes(32)
  const publicKey = curve.publicKeyOf(key)
  // One number of 2^128 is no key.
  if (publicKey === undefined) return newUser(curve)
  return {
    did: `did:ethr:rsk:${addressOfPublicKey(curve, publicKey)}`,
    sign: (message) => personalSign(curve, key, message)
  }
}

/** @see EIP-191, version 0x45 */
function personalSign(curve: Curve, key: Uint8Array, message: string): string {
  const text = `\u0019Ethereum Signed Message:\n${Buffer.byteLength(message)}${message}`
  const { signature, recovery } = curve.sign(curve.keccak256(text), key)
  return `0x${Buffer.from(signature).toString('hex')}${(27 + recovery).toString(16)}`
}
