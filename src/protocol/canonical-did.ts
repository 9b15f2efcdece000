// This file imports nothing, so that clients which compare DIDs stay small.

/** Prefix of all DIDs of the method `ethr`, also of those that contain no valid address. */
const ETHR_PREFIX = 'did:ethr:'

/** Whether a DID is of the method `ethr`. It may still contain no valid address. */
export function hasEthrMethod(did: string): boolean {
  return did.startsWith(ETHR_PREFIX)
}

/**
 * Returns a DID as users are stored: a did:ethr in lower case, so that the checksum spelling of its address is the same
 * user. In other methods, such as did:key, letter case distinguishes DIDs, so they are returned unchanged.
 */
export function canonicalDid(did: string): string {
  return hasEthrMethod(did) ? did.toLowerCase() : did
}
