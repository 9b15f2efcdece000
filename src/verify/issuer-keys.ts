import { cachedIssuerKeys } from '../adapters/cached-issuer-keys.js'
import { pureCurve } from '../adapters/curve-pure.js'
import { isSecp256k1Key, keyForms, type IssuerKey } from '../adapters/did-document.js'
import { DidAuthError } from '../errors.js'
import type { Client, Clock } from '../ports.js'

/** Any did-resolver `Resolvable`. */
export interface IssuerResolver {
  resolve(did: string): Promise<unknown>
}

/** Whether a key of the issuer made a signature over a hash. */
export type IsSigned = (hash: Uint8Array, signature: Uint8Array) => boolean

/**
 * Keys that are named: a signature fits two keys, and one of them may be the one. Each is recovered from its first
 * signature; later ones cost one verification. Where all are known, a bad signature costs no recovery.
 *
 * @param names - each key whole, compressed or by its address, as {@link keyForms} tells them
 */
export function namedKeys(names: readonly string[]): IsSigned {
  const known: Uint8Array[] = []
  return (hash, signature) => {
    if (known.some((key) => pureCurve.verify(hash, signature, key))) return true
    if (known.length >= names.length) return false
    const candidates = [0, 1].flatMap((recovery) => pureCurve.recover(hash, signature, recovery) ?? [])
    const key = candidates.find((one) => keyForms(pureCurve, one).some((form) => names.includes(form)))
    if (key !== undefined) known.push(key)
    return key !== undefined
  }
}

/** One issuer asks, so that no network has to be told from another. */
const VERIFIER: Client = { network: '', isGone: () => false }

/**
 * The keys that an issuer's DID document lists for assertions, asked again after 60 s. A resolver that does not answer
 * within 3 s is asked again after 10 s.
 *
 * @param onAnswer - called with each new document: what was verified by an older one has to be verified again
 * @throws DidAuthError ERR_RESOLVER; ERR_ACCESS_TOKEN when the DID has no keys
 */
export function resolvedKeys(
  issuer: string,
  resolver: IssuerResolver,
  clock: Clock,
  onAnswer: () => void
): () => Promise<IsSigned> {
  const resolved = cachedIssuerKeys(clock, resolver)
  let listed: readonly IssuerKey[] | undefined
  let keys = namedKeys([])
  return async () => {
    const answer = await resolved.keysOf(issuer, VERIFIER).catch((cause: unknown) => {
      if (!(cause instanceof DidAuthError) || cause.code !== 'ERR_CREDENTIAL_ISSUER') throw cause
      throw new DidAuthError('ERR_ACCESS_TOKEN', { cause, reason: { check: 'iss', expected: 'a DID with keys' } })
    })
    if (answer === listed) return keys
    listed = answer
    onAnswer()
    keys = namedKeys(answer.filter(isSecp256k1Key).map(({ hex }) => hex))
    return keys
  }
}
