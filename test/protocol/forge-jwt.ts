import { Buffer } from 'node:buffer'
import { getBytes, sha256, SigningKey } from 'ethers'

/** A part of a JWT: JSON to be, or text or bytes as they are. */
export type Part = object | string | Uint8Array

/** Signs what a JWT signs; returns the signature part's bytes. */
export type Sign = (signingInput: string) => Uint8Array

const encode = (part: Part): string =>
  Buffer.from(part instanceof Uint8Array || typeof part === 'string' ? part : JSON.stringify(part)).toString(
    'base64url'
  )

/** Low-s ES256K by ethers, so that no test checks this package's signatures with its own. */
export function es256k(privateKey: string): Sign {
  const key = new SigningKey(privateKey)
  return (signingInput) => {
    const { r, s } = key.sign(sha256(Buffer.from(signingInput)))
    return getBytes(r + s.slice(2))
  }
}

/** A JWT of any parts at all. */
export function forgeJwt(header: Part, payload: Part, sign: Sign): string {
  const signingInput = `${encode(header)}.${encode(payload)}`
  return `${signingInput}.${encode(sign(signingInput))}`
}
