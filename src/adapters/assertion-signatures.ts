import { createPublicKey, type KeyObject } from 'node:crypto'
import type { VerifyMachineSignature } from '../ports.js'
import { decodeHex } from '../protocol/encoding.js'
import type { MachineKey } from '../protocol/machine-did.js'
import { createKeyVerifier } from './key-verifier.js'

/** Curve of a key in DER. @see RFC 5480, section 2.1.1; RFC 8410, section 3 */
const DER_BY_KIND = {
  'P-256': decodeHex('301306072a8648ce3d020106082a8648ce3d030107'),
  Ed25519: decodeHex('300506032b6570')
}

/** Creates the function that verifies ES256 and Ed25519 signatures of machines. */
export function createAssertionSignatures(): VerifyMachineSignature {
  const verify = createKeyVerifier()
  return (did, { kind, bytes }, text, signature) => {
    if (kind === 'secp256k1') return false
    const digest = kind === 'Ed25519' ? null : 'sha256'
    return verify({ name: did, importKey: () => importKey(kind, bytes), digest }, text, signature)
  }
}

/** Imports a key as SubjectPublicKeyInfo, whose point may be compressed. @throws Error for no point of the curve */
function importKey(kind: keyof typeof DER_BY_KIND, bytes: MachineKey['bytes']): KeyObject {
  const curve = DER_BY_KIND[kind]
  const bits = [0x03, bytes.length + 1, 0, ...bytes]
  const key = Buffer.from([0x30, curve.length + bits.length, ...curve, ...bits])
  return createPublicKey({ key, format: 'der', type: 'spki' })
}
