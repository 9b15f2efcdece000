import { loadCurve, type Curve } from 'express-did-auth'

/** The service's key, at hand in this process. */
export interface ServiceKey {
  curve: Curve
  /** 65 bytes, uncompressed. */
  publicKey: Uint8Array
  /** 64 bytes, low s. */
  sign: (data: string) => Promise<Uint8Array>
}

/** @param privateKey - 64 hexadecimal digits, with or without `0x` */
export async function loadServiceKey(privateKey: string): Promise<ServiceKey> {
  const curve = await loadCurve()
  const key = Buffer.from(privateKey.replace(/^0x/, ''), 'hex')
  const publicKey = curve.publicKeyOf(key)
  if (publicKey === undefined) throw new TypeError('PRIVATE_KEY is no private key of secp256k1')
  return { curve, publicKey, sign: async (data) => curve.sign(curve.sha256(data), key).signature }
}
