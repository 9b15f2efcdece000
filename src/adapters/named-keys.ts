import type { Curve } from '../ports.js'
import { addressOfDid } from '../protocol/did.js'
import { listKeyForms } from './did-document.js'

/** Whether one of a set of keys made a signature over a hash. */
export type IsSigned = (hash: Uint8Array, signature: Uint8Array) => boolean

/**
 * Creates a check of signatures by keys of which perhaps only the address is known. A key is recovered from its first
 * signature; later signatures cost one verification. Once all keys are known, an invalid signature costs no recovery.
 *
 * @param names - each key uncompressed, compressed or as address, see {@link listKeyForms}
 */
export function parseNamedKeys(
  curve: Pick<Curve, 'verify' | 'recover' | 'keccak256Hex'>,
  names: readonly string[]
): IsSigned {
  const knownKeys: Uint8Array[] = []
  return (hash, signature) => {
    if (knownKeys.some((key) => curve.verify(hash, signature, key))) return true
    if (knownKeys.length >= names.length) return false
    const candidates = [0, 1].flatMap((recovery) => curve.recover(hash, signature, recovery) ?? [])
    const signer = candidates.find((key) => listKeyForms(curve, key).some((form) => names.includes(form)))
    if (signer !== undefined) knownKeys.push(signer)
    return signer !== undefined
  }
}

/**
 * Creates a curve that verifies tokens of a service whose key was replaced: by the key that the caller passes, else by
 * the keys of its former DIDs.
 *
 * @param previousDids - former DIDs of the service, all did:ethr
 * @throws DidAuthError ERR_DID_UNSUPPORTED for a DID whose public key is not a point of the curve
 */
export function curveWithPreviousKeys(curve: Curve, previousDids: readonly string[]): Pick<Curve, 'sha256' | 'verify'> {
  if (previousDids.length === 0) return curve
  const names = [...new Set(previousDids.map((did) => addressOfDid(did, curve).slice(2)))]
  const isSignedBefore = parseNamedKeys(curve, names)
  return {
    sha256: (data) => curve.sha256(data),
    verify: (hash, signature, key) => curve.verify(hash, signature, key) || isSignedBefore(hash, signature)
  }
}
