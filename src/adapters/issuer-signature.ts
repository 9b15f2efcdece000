import { Buffer } from 'node:buffer'
import { createPublicKey, verify, type KeyObject } from 'node:crypto'
import type { ParsedJwt } from '../protocol/jwt.js'
import type { IssuerKey } from './issuer-key.js'

const SIGNATURE_BYTES = 64

/** What stands before the bytes of a key in its DER form, by the length of these bytes. See RFC 5480 and RFC 8410. */
const P_256_PREFIXES: ReadonlyMap<number, string> = new Map([
  [33, '3039301306072a8648ce3d020106082a8648ce3d030107032200'],
  [65, '3059301306072a8648ce3d020106082a8648ce3d030107034200']
])
const ED25519_PREFIX = '302a300506032b6570032100'

/** Whether a key made an ES256 or EdDSA signature; false as well for a key that is none. @see RFC 7518, RFC 8037 */
export function isSignedByIssuerKey(key: IssuerKey, { header, signature, signingInput }: ParsedJwt): boolean {
  if (signature.length !== SIGNATURE_BYTES) return false
  const data = Buffer.from(signingInput)
  try {
    const publicKey = importKey(key)
    if (header.alg === 'EdDSA') return verify(null, data, publicKey, signature)
    return verify('sha256', data, { key: publicKey, dsaEncoding: 'ieee-p1363' }, signature)
  } catch {
    return false
  }
}

function importKey({ kind, hex }: IssuerKey): KeyObject {
  const prefix = kind === 'Ed25519' ? ED25519_PREFIX : (P_256_PREFIXES.get(hex.length / 2) ?? '')
  return createPublicKey({ key: Buffer.from(prefix + hex, 'hex'), format: 'der', type: 'spki' })
}
