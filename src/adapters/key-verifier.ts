import { verify, type KeyObject } from 'node:crypto'
import { RecentEntries } from '../caches.js'

/** A public key of P-256 or Ed25519. */
interface VerifierKey {
  /** Text that identifies the key. */
  name: string
  /** Parses the key. @throws Error for no point of the curve */
  importKey: () => KeyObject
  /** Digest of ES256. Null for Ed25519, whose digest is part of the algorithm. */
  digest: 'sha256' | null
}

/**
 * Creates a function that tells whether a key made a signature over a text; also false for no point of the curve. It
 * caches parsed keys, because parsing a key costs as much as verifying a signature.
 */
export function createKeyVerifier(): (key: VerifierKey, text: string, signature: Uint8Array) => boolean {
  const keys = new RecentEntries<KeyObject>()
  return ({ name, importKey, digest }, text, signature) => {
    try {
      let key = keys.get(name)
      if (key === undefined) keys.set(name, (key = importKey()))
      return verify(digest, Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' }, signature)
    } catch {
      return false
    }
  }
}
