import type { UserIdentity } from '../ports.js'
import type { Curve } from '../protocol/curve.js'
import { addressOfDid, canonicalDid } from '../protocol/did.js'

/**
 * The comparable forms of a user's DID.
 *
 * @throws DidAuthError ERR_DID_UNSUPPORTED when no address controls it
 */
export function userIdentity(curve: Curve, did: string): UserIdentity {
  return { canonicalDid: canonicalDid(did), address: addressOfDid(did, curve) }
}
