import { parseResolution } from '../adapters/did-resolution.js'
import { pureCurve } from '../adapters/curve-pure.js'
import { DidAuthError } from '../errors.js'
import { addressOfPublicKey } from '../protocol/curve.js'
import { addressOfDid } from '../protocol/did.js'
import { hexOfBytes } from '../protocol/encoding.js'
import { within } from '../time.js'

const ANSWER_SECONDS = 60
const FAILURE_SECONDS = 10
const RESOLUTION_MILLISECONDS = 3_000

/** Any did-resolver `Resolvable`. */
export interface IssuerResolver {
  resolve(did: string): Promise<unknown>
}

/** The keys of an issuer, as far as they are known. */
export interface IssuerKeys {
  /** Whether a key of the issuer made a signature over a hash. */
  readonly verify: (hash: Uint8Array, signature: Uint8Array) => boolean
}

/** Keys that are known. */
export function knownKeys(keys: readonly Uint8Array[]): IssuerKeys {
  return { verify: (hash, signature) => keys.some((key) => pureCurve.verify(hash, signature, key)) }
}

/**
 * The key of a did:ethr, which is known from the first signature on: the DID is the address of its key, and a signature
 * fits two keys.
 */
export function ethrKeys(issuer: string): IssuerKeys {
  const address = addressOfDid(issuer, pureCurve)
  return keysFromSignatures((key) => addressOfPublicKey(pureCurve, key) === address, 1)
}

/**
 * Keys by what they have to match. Each is recovered from its first signature; later ones cost one verification.
 *
 * @param max - how many keys match at most: where all are known, a bad signature costs no recovery
 */
function keysFromSignatures(isKeyOfIssuer: (publicKey: Uint8Array) => boolean, max: number): IssuerKeys {
  const known: Uint8Array[] = []
  return {
    verify(hash, signature) {
      if (known.some((key) => pureCurve.verify(hash, signature, key))) return true
      if (known.length >= max) return false
      const key = [0, 1]
        .map((recovery) => pureCurve.recover(hash, signature, recovery))
        .find((candidate) => candidate !== undefined && isKeyOfIssuer(candidate))
      if (key !== undefined) known.push(key)
      return key !== undefined
    }
  }
}

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
  onAnswer: () => void
): (nowSeconds: number) => Promise<IssuerKeys> {
  let answer: Promise<IssuerKeys> | undefined
  let sinceSeconds = 0
  let lifetimeSeconds = ANSWER_SECONDS

  const ask = async (): Promise<IssuerKeys> => {
    const listed = parseResolution(issuer, await within(RESOLUTION_MILLISECONDS, resolver.resolve(issuer)))
    const keys = listed.keys.flatMap((key) => key.parse() ?? [])
    onAnswer()
    const isListed = (publicKey: Uint8Array): boolean => {
      const whole = hexOfBytes(publicKey)
      const compressed = `${Number.parseInt(whole.slice(-1), 16) % 2 === 0 ? '02' : '03'}${whole.slice(2, 66)}`
      const address = addressOfPublicKey(pureCurve, publicKey).slice(2)
      return keys.some(({ kind, hex }) =>
        kind === 'address' ? hex === address : kind !== 'P-256' && (hex === whole || hex === compressed)
      )
    }
    return keysFromSignatures(isListed, keys.length)
  }

  return (nowSeconds) => {
    // An answer from the future was received before the clock was set back.
    const isInForce = sinceSeconds <= nowSeconds && nowSeconds < sinceSeconds + lifetimeSeconds
    if (answer !== undefined && isInForce) return answer
    sinceSeconds = nowSeconds
    lifetimeSeconds = ANSWER_SECONDS
    answer = ask().catch((cause: unknown) => {
      lifetimeSeconds = FAILURE_SECONDS
      throw refusalOf(cause)
    })
    return answer
  }
}

function refusalOf(cause: unknown): DidAuthError {
  if (cause instanceof DidAuthError && cause.code === 'ERR_CREDENTIAL_ISSUER') {
    return new DidAuthError('ERR_ACCESS_TOKEN', { cause, reason: { check: 'iss', expected: 'a DID with keys' } })
  }
  return new DidAuthError('ERR_RESOLVER', { cause, retryAfterSeconds: FAILURE_SECONDS })
}
