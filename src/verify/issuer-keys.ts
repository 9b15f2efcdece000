import { createIssuerKeyCache } from '../adapters/cached-issuer-keys.js'
import { pureCurve } from '../adapters/curve-pure.js'
import { isSecp256k1Key, type IssuerKey } from '../adapters/did-document.js'
import { parseNamedKeys, type IsSigned } from '../adapters/named-keys.js'
import { DidAuthError } from '../errors.js'
import type { Client, Clock } from '../ports.js'
import { addressOfDid, isEthrDid } from '../protocol/did.js'
import { decodeHex, encodeHex } from '../protocol/encoding.js'
import { isObject } from '../protocol/json.js'
import { isBytes } from '../protocol/is-bytes.js'

const KEY_HEX = /^(?:0x)?(0[23][0-9a-f]{64}|04[0-9a-f]{128})$/i

/** Any did-resolver `Resolvable`. */
export interface IssuerResolver {
  /** Resolves a DID to a DID resolution result. */
  resolve(did: string): Promise<unknown>
}

/** The client of all resolutions: the limits per client network do not matter for a single issuer. */
const VERIFIER: Client = { network: '', isGone: () => false }

/**
 * Creates a function that returns the current check of an issuer's signatures: by the key of its DID, by the given
 * keys, or by those that its DID document lists for assertions. The document is cached for 60 s. A failed resolution,
 * which may take 3 s, is repeated after 10 s.
 *
 * @param onNewKeys - called after each new document, so that tokens are verified again
 * @returns a function that throws DidAuthError ERR_RESOLVER; ERR_ACCESS_TOKEN if the DID has no keys
 * @throws DidAuthError ERR_CONFIG
 */
export function createIssuerKeys(
  issuer: string,
  { publicKeys, resolver }: { readonly publicKeys?: unknown; readonly resolver?: IssuerResolver | undefined },
  clock: Clock,
  onNewKeys: () => void
): () => IsSigned | Promise<IsSigned> {
  if (resolver === undefined) {
    const keys = parseNamedKeys(
      pureCurve,
      publicKeys === undefined ? [parseAddress(issuer)] : parsePublicKeys(publicKeys)
    )
    return () => keys
  }
  if (publicKeys !== undefined) throw createConfigError('give publicKeys or resolver, not both')
  if (!isObject(resolver) || typeof resolver.resolve !== 'function') {
    throw createConfigError('resolver: give an object with a method resolve')
  }
  const resolved = createIssuerKeyCache(clock, resolver, 'assertionMethod')
  let listed: readonly IssuerKey[] | undefined
  let keys: IsSigned
  return async () => {
    const answer = await resolved.keysOf(issuer, VERIFIER).catch((cause: unknown) => {
      if (!(cause instanceof DidAuthError) || cause.code !== 'ERR_CREDENTIAL_ISSUER') throw cause
      throw new DidAuthError('ERR_ACCESS_TOKEN', { cause, reason: { check: 'iss', expected: 'a DID with keys' } })
    })
    if (answer !== listed) {
      listed = answer
      onNewKeys()
      keys = parseNamedKeys(
        pureCurve,
        answer.filter(isSecp256k1Key).map(({ hex }) => hex)
      )
    }
    return keys
  }
}

/** Returns the address in a did:ethr, or that of the public key in it, without `0x`. */
function parseAddress(issuer: string): string {
  if (!isEthrDid(issuer)) throw createConfigError('issuer: give publicKeys or resolver, since it is not a did:ethr')
  try {
    return addressOfDid(issuer, pureCurve).slice(2)
  } catch {
    throw createConfigError('issuer: give a DID whose public key is a point of secp256k1')
  }
}

function parsePublicKeys(keys: unknown): string[] {
  const parsed = Array.isArray(keys) ? keys.map(parsePublicKey) : []
  if (parsed.length === 0) throw createConfigError('publicKeys: give an array of at least one key')
  return parsed
}

function parsePublicKey(key: unknown): string {
  const hex = typeof key === 'string' ? KEY_HEX.exec(key)?.[1] : undefined
  const bytes = hex === undefined ? key : decodeHex(hex)
  const point = isBytes(bytes) ? pureCurve.decompress(compressKey(bytes)) : undefined
  if (point === undefined) throw createConfigError('publicKeys: give keys of secp256k1, 33 or 65 bytes')
  return encodeHex(point)
}

function compressKey(key: Uint8Array): Uint8Array {
  return key.length === 65 ? Uint8Array.of(2 + ((key[64] ?? 0) % 2), ...key.subarray(1, 33)) : key
}

/** Creates the error of an invalid option of `express-did-auth/verify`. */
export function createConfigError(problem: string): DidAuthError {
  return new DidAuthError('ERR_CONFIG', { message: `express-did-auth/verify: ${problem}` })
}

/** Creates a logger that writes warnings to the console, because the verifiers have no option for a logger. */
export function createWarningLogger(): { warn: (fields: object, message: string) => void } {
  return { warn: (fields, message) => console.warn(`express-did-auth/verify: ${message}`, fields) }
}
