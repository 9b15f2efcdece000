import { pureCurve } from '../adapters/curve-pure.js'
import { DidAuthError } from '../errors.js'
import { addressOfDid, isDid, isEthrDid } from '../protocol/did.js'
import { bytesOfHex, hexOfBytes } from '../protocol/encoding.js'
import { isObject } from '../protocol/json.js'
import { parseHttpUrl } from '../protocol/parse-url.js'
import type { Clock } from '../ports.js'
import { systemClock } from '../time.js'
import { namedKeys, resolvedKeys, type IsSigned, type IssuerResolver } from './issuer-keys.js'

const KEY_HEX = /^(?:0x)?(0[23][0-9a-f]{64}|04[0-9a-f]{128})$/i
const PREFIXES: readonly unknown[] = ['', '__Host-', '__Secure-']

/** Options of a verifier: whose tokens it accepts, and for which service. */
export interface VerifierOptions {
  /** `serviceDid` of the service that issues the tokens. A `did:ethr` needs nothing else: it names its key. */
  issuer: string
  /** `serviceUrl` of that service, letter by letter. */
  audience: string
  /**
   * The keys of the issuer, if it signs with another key than that of its DID: 33 or 65 bytes, or their hexadecimal.
   * Not together with `resolver`.
   */
  publicKeys?: readonly (string | Uint8Array)[] | undefined
  /** Any did-resolver `Resolvable`: the issuer's DID document decides, asked again after 60 s. */
  resolver?: IssuerResolver | undefined
  /** The `cookiePrefix` of the service. Default: none. */
  cookiePrefix?: '' | '__Host-' | '__Secure-' | undefined
  /** Origins besides that of `audience` whose pages may make unsafe requests with cookies. */
  trustedOrigins?: readonly string[] | undefined
  /** For tests. */
  clock?: { nowSeconds(): number } | undefined
}

/** Checks the options of a verifier, told when the issuer may have other keys. @throws DidAuthError ERR_CONFIG */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- its type is what it returns
export function parseVerifierOptions(options: VerifierOptions, onNewKeys: () => void) {
  const { issuer, audience, cookiePrefix = '', trustedOrigins = [], clock: given = systemClock } = options
  if (!isDid(issuer)) throw wrong('issuer: give the DID of the service that issues the tokens')
  if (typeof audience !== 'string' || audience === '') throw wrong('audience: give the serviceUrl of that service')
  if (!/^[\x21\x23-\x5b\x5d-\x7e]+$/.test(audience))
    throw wrong('audience: it stands in a header, so give no quote, \\ or space')
  if (!PREFIXES.includes(cookiePrefix)) throw wrong("cookiePrefix: give '', '__Host-' or '__Secure-'")
  const url = parseHttpUrl(audience)
  const clock = { nowSeconds: () => Math.floor(given.nowSeconds()) }
  return {
    issuer,
    audience,
    keys: keysOf(options, clock, onNewKeys),
    clock,
    cookieRule: {
      cookie: `${cookiePrefix}authorization`,
      trustedOrigins: new Set([...(url === undefined ? [] : [url.origin]), ...parseOrigins(trustedOrigins)])
    }
  }
}

/** Makes what knows the keys of the issuer as they are now. */
function keysOf(options: VerifierOptions, clock: Clock, onNewKeys: () => void): () => IsSigned | Promise<IsSigned> {
  const { issuer, publicKeys, resolver } = options
  if (publicKeys !== undefined && resolver !== undefined) throw wrong('give publicKeys or resolver, not both')
  if (resolver !== undefined) {
    if (!hasResolve(resolver)) throw wrong('resolver: give an object with a method resolve')
    return resolvedKeys(issuer, resolver, clock, onNewKeys)
  }
  const keys = namedKeys(publicKeys === undefined ? [parseAddress(issuer)] : parsePublicKeys(publicKeys))
  return () => keys
}

function hasResolve(resolver: unknown): boolean {
  return isObject(resolver) && typeof resolver.resolve === 'function'
}

/** The address of a did:ethr, as a key is named by it. */
function parseAddress(issuer: string): string {
  if (!isEthrDid(issuer)) throw wrong('issuer: one that is not a did:ethr needs publicKeys or resolver')
  try {
    return addressOfDid(issuer, pureCurve).slice(2)
  } catch {
    throw wrong('issuer: its public key is not a point of the curve')
  }
}

function parsePublicKeys(keys: unknown): string[] {
  const parsed = Array.isArray(keys) ? keys.map(parsePublicKey) : []
  if (parsed.length === 0) throw wrong('publicKeys: give an array of at least one key')
  return parsed
}

function parsePublicKey(key: unknown): string {
  const hex = typeof key === 'string' ? KEY_HEX.exec(key)?.[1] : undefined
  const bytes = hex === undefined ? key : bytesOfHex(hex)
  const point = bytes instanceof Uint8Array ? pureCurve.decompress(compressed(bytes)) : undefined
  if (point === undefined) throw wrong('publicKeys: give keys of secp256k1, 33 or 65 bytes')
  return hexOfBytes(point)
}

function compressed(key: Uint8Array): Uint8Array {
  return key.length === 65 ? Uint8Array.of(2 + ((key[64] ?? 0) % 2), ...key.subarray(1, 33)) : key
}

function parseOrigins(origins: unknown): string[] {
  if (Array.isArray(origins) && origins.every(isOrigin)) return origins
  throw wrong('trustedOrigins: give an array of origins such as "https://app.example"')
}

function isOrigin(value: unknown): value is string {
  return typeof value === 'string' && parseHttpUrl(value)?.origin === value
}

function wrong(problem: string): DidAuthError {
  return new DidAuthError('ERR_CONFIG', { message: `express-did-auth/verify: ${problem}` })
}
