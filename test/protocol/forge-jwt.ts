import { Buffer } from 'node:buffer'
import { sha256, SigningKey } from 'ethers/crypto'
import { getBytes } from 'ethers/utils'

/** Part of a JWT: an object, which becomes JSON, or a text or bytes, which are not changed. */
export type Part = object | string | Uint8Array

/** Function that signs the input of a JWT, and returns the bytes of the signature. */
export type Sign = (signingInput: string) => Uint8Array

const encode = (part: Part): string =>
  Buffer.from(part instanceof Uint8Array || typeof part === 'string' ? part : JSON.stringify(part)).toString(
    'base64url'
  )

/**
 * Returns an ES256K signer with a low s, by ethers, so that no test checks signatures of this package with its own
 * code.
 */
export function es256k(privateKey: string): Sign {
  const key = new SigningKey(privateKey)
  return (signingInput) => {
    const { r, s } = key.sign(sha256(Buffer.from(signingInput)))
    return getBytes(r + s.slice(2))
  }
}

/** Builds a JWT from any parts. */
export function forgeJwt(header: Part, payload: Part, sign: Sign): string {
  const signingInput = `${encode(header)}.${encode(payload)}`
  return `${signingInput}.${encode(sign(signingInput))}`
}
