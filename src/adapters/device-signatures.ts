import { createPublicKey } from 'node:crypto'
import type { VerifyDeviceSignature } from '../ports.js'
import { createKeyVerifier } from './key-verifier.js'

/** Creates the function that verifies ES256 signatures of devices. */
export function createDeviceSignatures(): VerifyDeviceSignature {
  const verify = createKeyVerifier()
  return (jwk, text, signature) => {
    const importKey = () => createPublicKey({ key: { ...jwk }, format: 'jwk' })
    return verify({ name: jwk.x + jwk.y, importKey, digest: 'sha256' }, text, signature)
  }
}
