import type { Curve } from '../ports.js'
import { addressOfDid } from '../protocol/did.js'
import { listKeyForms } from './did-document.js'

/** Whether one of some keys made a signature over a hash. */
export type IsSigned = (hash: Uint8Array, signature: Uint8Array) => boolean

/**
 * Creates the check of signatures by named keys. A signature fits two keys, of which one may be named: it is recovered
 * from its first signature, and later ones cost one verification. Where all are known, an invalid signature costs no
 * recovery.
 *
 * @param names - each key whole, compressed or by its address, as {@link listKeyForms} has them
 */
export function parseNamedKeys(
  curve: Pick<Curve, 'verify' | 'recover' | 'keccak256Hex'>,
  names: readonly string[]
): IsSigned {
  const known: Uint8Array[] = []
  return (hash, signature) => {
    if (known.some((key) => curve.verify(hash, signature, key))) return true
    if (known.length >= names.length) return false
    const candidates = [0, 1].flatMap((recovery) => curve.recover(hash, signature, recovery) ?? [])
    const key = candidates.find((one) => listKeyForms(curve, one).some((form) => names.includes(form)))
    if (key !== undefined) known.push(key)
    return key !== undefined
  }
}

/**
 * Creates the arithmetic that verifies tokens of a service whose key was replaced: by the given key, else by the keys
 * that its earlier DIDs name.
 *
 * @param previousDids - of did:ethr
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
