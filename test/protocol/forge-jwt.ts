import { Buffer } from 'node:buffer'
import { getBytes, sha256, SigningKey } from 'ethers'

/** Part of a JWT: an object that becomes JSON, or text or bytes that are used unchanged. */
export type Part = object | string | Uint8Array

/** Signs the input of a JWT, and returns the bytes of the signature. */
export type Sign = (signingInput: string) => Uint8Array

const encode = (part: Part): string =>
  Buffer.from(part instanceof Uint8Array || typeof part === 'string' ? part : JSON.stringify(part)).toString(
    'base64url'
  )

/** Returns low-s ES256K by ethers, so that no test checks this package's signatures with its own code. */
export function es256k(privateKey: string): Sign {
  const key = new SigningKey(privateKey)
  return (signingInput) => {
    const { r, s } = key.sign(sha256(Buffer.from(signingInput)))
    return getBytes(r + s.slice(2))
  }
}

/** Returns a JWT of any parts. */
export function forgeJwt(header: Part, payload: Part, sign: Sign): string {
  const signingInput = `${encode(header)}.${encode(payload)}`
  return `${signingInput}.${encode(sign(signingInput))}`
}
