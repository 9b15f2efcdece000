import { Buffer } from 'node:buffer'
import { isBytes } from '../../src/protocol/is-bytes.js'
import { signEs256k } from '../support/fixtures/secp256k1-key.js'

/** Part of a JWT: an object, which becomes JSON, or a text or bytes, which are not changed. */
export type Part = object | string | Uint8Array

/** Function that signs the input of a JWT, and returns the bytes of the signature. */
export type Sign = (signingInput: string) => Uint8Array

const encode = (part: Part): string =>
  Buffer.from(isBytes(part) || typeof part === 'string' ? part : JSON.stringify(part)).toString('base64url')

/** Returns an ES256K signer with a low s, so that no test checks signatures of this package with its own code. */
export function es256k(privateKey: string): Sign {
  return (signingInput) => signEs256k(privateKey, signingInput).signature
}

/** Builds a JWT from any parts. */
export function forgeJwt(header: Part, payload: Part, sign: Sign): string {
  const signingInput = `${encode(header)}.${encode(payload)}`
  return `${signingInput}.${encode(sign(signingInput))}`
}
