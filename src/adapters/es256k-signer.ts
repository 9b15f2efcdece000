import { Buffer } from 'node:buffer'
import { addressOfPublicKey, type Curve } from '../protocol/curve.js'
import { encodeBase64url } from '../protocol/encode-base64url.js'
import { isInRange } from '../protocol/ecdsa-signature.js'
import type { Signer } from '../ports.js'
import { loadCurve } from './curve.js'

const PRIVATE_KEY = /^(?:0x)?[0-9a-fA-F]{64}$/
const OUT_OF_RANGE = 'the private key is not in the range of secp256k1'

/** Signs synchronously: 64 bytes over SHA-256 of the text. */
export type LocalSigner = (curve: Pick<Curve, 'sha256' | 'sign'>, data: string | Uint8Array) => Uint8Array

const localSigners = new WeakMap<Signer, LocalSigner>()

/**
 * A fast ES256K signer for `serviceSigner`, good for did-jwt as well.
 *
 * @param privateKey - 32 bytes, or 64 hexadecimal digits with or without `0x`
 * @throws TypeError when it is neither, or no private key of secp256k1; the message does not show it
 */
export function es256kSigner(privateKey: string | Uint8Array): (data: string | Uint8Array) => Promise<string> {
  const key = parsePrivateKey(privateKey)
  const sign: LocalSigner = (curve, data) => curve.sign(curve.sha256(data), key).signature
  const signer = async (data: string | Uint8Array): Promise<string> => encodeBase64url(sign(await loadCurve(), data))
  localSigners.set(signer, sign)
  return signer
}

/**
 * The synchronous function behind a signer of ours. The promise and the text form cost a third of the signature.
 *
 * @returns undefined for any other signer, which may be remote, slow, or change its key
 */
export function localSignerOf(signer: Signer): LocalSigner | undefined {
  return localSigners.get(signer)
}

/**
 * The DID of a private key.
 *
 * @param privateKey - as for {@link es256kSigner}
 * @param network - network of the DID, default `rsk`; empty for Ethereum main net
 * @returns `did:ethr:<network>:<address in lower case>`
 * @throws TypeError as {@link es256kSigner}
 */
export async function didOfPrivateKey(privateKey: string | Uint8Array, network = 'rsk'): Promise<string> {
  const key = parsePrivateKey(privateKey)
  const curve = await loadCurve()
  const publicKey = curve.publicKeyOf(key)
  if (publicKey === undefined) throw new TypeError(OUT_OF_RANGE)
  return ['did:ethr', network, addressOfPublicKey(curve, publicKey)].filter((part) => part !== '').join(':')
}

/**
 * Whether a value is a private key that {@link es256kSigner} accepts: 32 bytes, or 64 hexadecimal digits with or without
 * `0x`, in the range of secp256k1.
 *
 * @example
 * if (!isPrivateKey(process.env.PRIVATE_KEY)) throw new Error('PRIVATE_KEY: give 64 hex digits')
 */
export function isPrivateKey(value: unknown): value is string | Uint8Array {
  try {
    parsePrivateKey(value)
    return true
  } catch {
    return false
  }
}

function parsePrivateKey(privateKey: unknown): Uint8Array {
  const key =
    typeof privateKey === 'string' && PRIVATE_KEY.test(privateKey)
      ? Buffer.from(privateKey.replace(/^0x/, ''), 'hex')
      : privateKey
  if (!(key instanceof Uint8Array) || key.length !== 32) {
    throw new TypeError('give a private key of 32 bytes, or its 64 hexadecimal digits')
  }
  // Both halves of a signature have the range of a private key.
  if (!isInRange(Buffer.concat([key, key]))) throw new TypeError(OUT_OF_RANGE)
  return Uint8Array.from(key)
}
