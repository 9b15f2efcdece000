import { Buffer } from 'node:buffer'
import { addressOfPublicKey } from '../protocol/curve.js'
import { encodeBase64url } from '../protocol/base64url.js'
import type { Signer } from '../ports.js'
import { loadCurve } from './curve.js'

const PRIVATE_KEY = /^(?:0x)?[0-9a-fA-F]{64}$/

/**
 * A fast ES256K signer for `serviceSigner`, good for did-jwt as well.
 *
 * @param privateKey - 32 bytes, or 64 hexadecimal digits with or without `0x`
 * @throws TypeError when it is neither; the message does not show it
 */
export function es256kSigner(privateKey: string | Uint8Array): Signer {
  const key = parsePrivateKey(privateKey)
  return async (data) => {
    const curve = await loadCurve()
    return encodeBase64url(curve.sign(curve.sha256(data), key).signature)
  }
}

/**
 * The DID of a private key.
 *
 * @param privateKey - as for {@link es256kSigner}
 * @param network - network of the DID, default `rsk`; empty for Ethereum main net
 * @returns `did:ethr:<network>:<address in lower case>`
 * @throws TypeError when the key is no secp256k1 private key
 */
export async function didOfPrivateKey(privateKey: string | Uint8Array, network = 'rsk'): Promise<string> {
  const curve = await loadCurve()
  const publicKey = curve.publicKeyOf(parsePrivateKey(privateKey))
  if (publicKey === undefined) throw new TypeError('the private key is not in the range of secp256k1')
  return ['did:ethr', network, addressOfPublicKey(curve, publicKey)].filter((part) => part !== '').join(':')
}

function parsePrivateKey(privateKey: unknown): Uint8Array {
  if (typeof privateKey === 'string' && PRIVATE_KEY.test(privateKey)) {
    return Buffer.from(privateKey.replace(/^0x/, ''), 'hex')
  }
  if (privateKey instanceof Uint8Array && privateKey.length === 32) return Uint8Array.from(privateKey)
  throw new TypeError('give a private key of 32 bytes, or its 64 hexadecimal digits')
}
