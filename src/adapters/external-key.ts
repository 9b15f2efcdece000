import type { ExternalResourceKey, Signer } from '../ports.js'
import { addressOfPublicKey } from '../protocol/curve.js'
import { parseDerSignature, parsePublicKey, type EcPublicKey } from '../protocol/der.js'
import { ethrDid } from '../protocol/did.js'
import { toLowS } from '../protocol/ecdsa-signature.js'
import { encodeBase64url } from '../protocol/encoding.js'
import { loadCurve } from './curve.js'

/** A key that stays in a key management service, as its client returns it. */
export interface ExternalKey {
  /** Public key as SubjectPublicKeyInfo: DER bytes or PEM text. */
  readonly publicKey: string | Uint8Array
  /** Signs a SHA-256 hash of 32 bytes. Returns the ECDSA signature in DER. */
  signDigest(digest: Uint8Array): Promise<Uint8Array>
}

/**
 * Creates `serviceDid` and `serviceSigner` from a key of secp256k1 in a key management service: `ECC_SECG_P256K1` of
 * AWS, `EC_SIGN_SECP256K1_SHA256` of Google Cloud.
 *
 * @param key - public key and signing function of the service
 * @param network - network in `serviceDid`. Default `rsk`; empty for Ethereum main net
 * @throws TypeError if the public key is another kind of key. The signer rejects with a TypeError if the service
 * returns no DER signature of this key; requests then get ERR_SIGNER
 * @see src/guides/KEY-MANAGEMENT.md
 * @example
 * const { serviceDid, serviceSigner } = await externalSigner({ publicKey, signDigest })
 * setupDidAuth(app, { challengeSecret, serviceUrl, serviceDid, serviceSigner })
 */
export async function externalSigner(
  key: ExternalKey,
  network = 'rsk'
): Promise<{ serviceDid: string; serviceSigner: Signer }> {
  const point = parsePoint(key, 'secp256k1')
  const curve = await loadCurve()
  // The last byte of y decides which of the two points with this x it is.
  const compressed = Uint8Array.of(2 + ((point[64] ?? 0) & 1), ...point.subarray(1, 33))
  const isOnCurve = curve.decompress(compressed)?.every((byte, index) => byte === point[index]) === true
  if (!isOnCurve) throw new TypeError('externalSigner: the public key is no point of secp256k1')
  const serviceSigner: Signer = async (data) => {
    const hash = curve.sha256(data)
    const signature = toLowS(await signDigest(key, hash))
    // A key that was replaced behind the same name must not issue tokens.
    if (!curve.verify(hash, signature, point)) throw new TypeError('the signature does not match the public key')
    return encodeBase64url(signature)
  }
  return { serviceDid: ethrDid(network, addressOfPublicKey(curve, point)), serviceSigner }
}

/**
 * Creates an entry of `resourceKeys` from a key of P-256 in a key management service: `ECC_NIST_P256` of AWS,
 * `EC_SIGN_P256_SHA256` of Google Cloud.
 *
 * @param key - public key and signing function of the service
 * @throws TypeError if the public key is another kind of key
 * @example
 * const resourceKeys = [externalResourceKey({ publicKey, signDigest })]
 */
export function externalResourceKey(key: ExternalKey): ExternalResourceKey {
  const point = parsePoint(key, 'P-256')
  const [x, y] = [encodeBase64url(point.subarray(1, 33)), encodeBase64url(point.subarray(33))]
  return {
    publicKey: { kty: 'EC', crv: 'P-256', x, y },
    sign: async (data) => signDigest(key, new Uint8Array(await crypto.subtle.digest('SHA-256', data.slice())))
  }
}

function parsePoint({ publicKey }: ExternalKey, curve: EcPublicKey['curve']): Uint8Array {
  const parsed = parsePublicKey(publicKey)
  if (parsed?.curve === curve) return parsed.point
  const got = parsed === undefined ? 'another form or kind of key' : `a key of ${parsed.curve}`
  throw new TypeError(`give a public key of ${curve} as SubjectPublicKeyInfo, DER or PEM; received ${got}`)
}

async function signDigest(key: ExternalKey, digest: Uint8Array): Promise<Uint8Array> {
  const signature = parseDerSignature(await key.signDigest(digest))
  if (signature === undefined) throw new TypeError('the key management service returned no ECDSA signature in DER')
  return signature
}
