import { createPublicKey, verify, type KeyObject } from 'node:crypto'
import { RecentEntries } from '../caches.js'
import type { VerifyDeviceSignature } from '../ports.js'

/**
 * Creates the function that verifies ES256 signatures of devices. It caches parsed keys, because parsing a key costs as
 * much as verifying a signature.
 */
export function createDeviceSignatures(): VerifyDeviceSignature {
  const keys = new RecentEntries<KeyObject>()
  return (jwk, text, signature) => {
    const name = jwk.x + jwk.y
    try {
      let key = keys.get(name)
      if (key === undefined) keys.set(name, (key = createPublicKey({ key: { ...jwk }, format: 'jwk' })))
      return verify('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' }, signature)
    } catch {
      // The coordinates are no point of P-256.
      return false
    }
  }
}
