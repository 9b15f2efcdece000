import { Buffer } from 'node:buffer'
import { addressOfPublicKey } from '../protocol/curve.js'
import { encodeBase64url } from '../protocol/base64url.js'
import { isInRange } from '../protocol/ecdsa-signature.js'
import type { Signer } from '../ports.js'
import { loadCurve } from './curve.js'

const PRIVATE_KEY = /^(?:0x)?[0-9a-fA-F]{64}$/
const OUT_OF_RANGE = 'the private key is not in the range of secp256k1'

const es256kSigners = new WeakSet<Signer>()

/**
 * A fast ES256K signer for `serviceSigner`, good for did-jwt as well.
 *
 * @param privateKey - 32 bytes, or 64 hexadecimal digits with or without `0x`
 * @throws TypeError when it is neither, or no private key of secp256k1; the message does not show it
 */
export function es256kSigner(privateKey: string | Uint8Array): (data: string | Uint8Array) => Promise<string> {
  const key = parsePrivateKey(privateKey)
  const signer = async (data: string | Uint8Array): Promise<string> => {
    const curve = await loadCurve()
    return encodeBase64url(curve.sign(curve.sha256(data), key).signature)
  }
  es256kSigners.add(signer)
  return signer
}

/** Whether a signer is one of ours: it computes right here, and always with the same key. */
export function isEs256kSigner(signer: Signer): boolean {
  return es256kSigners.has(signer)
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
