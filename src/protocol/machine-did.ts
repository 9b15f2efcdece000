import { DidAuthError } from '../errors.js'
import { isEd25519Key } from './ed25519-key.js'
import { decodeBase58, decodeBase64url, encodeHex } from './encoding.js'
import { isObject, readField } from './json.js'

/** Public key that a DID contains. */
export interface MachineKey {
  kind: 'P-256' | 'Ed25519' | 'secp256k1'
  /**
   * An Ed25519 key of 32 bytes that is no point of small order, or a point of 33 (compressed) or 65 bytes. Whether that
   * point is on the curve is checked with the signature.
   */
  bytes: Uint8Array
}

/** Values of `alg` with which each kind of key signs. @see RFC 7518, section 3.4; RFC 8812; RFC 8037; RFC 9864 */
export const ALGORITHMS_BY_KIND: Readonly<Record<MachineKey['kind'], readonly string[]>> = {
  'P-256': ['ES256'],
  Ed25519: ['EdDSA', 'Ed25519'],
  secp256k1: ['ES256K']
}

/** Kind of key by multicodec: a varint in hexadecimal. @see multicodec table */
const KIND_BY_CODEC: ReadonlyMap<string, MachineKey['kind']> = new Map([
  ['8024', 'P-256'],
  ['ed01', 'Ed25519'],
  ['e701', 'secp256k1']
])

/** Members of private and symmetric keys. @see RFC 7518, sections 6.2.2, 6.3.2 and 6.4.1 */
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k']

const DID_KEY = 'did:key:z'
const DID_JWK = 'did:jwk:'
const UTF_8 = new TextDecoder('utf-8', { fatal: true })
/** Matches each string of a JSON text. The group matches the colon after the name of a member. */
const JSON_STRING = /"(?:[^"\\]|\\.)*"(\s*:)?/g

/**
 * Parses the public key in a `did:key` or `did:jwk`. One key can have several DIDs, because a `did:jwk` has many
 * spellings.
 * @throws DidAuthError ERR_DID_UNSUPPORTED for a DID of another method, and for a key of another kind or form
 * @see did:key method specification; did:jwk method specification
 */
export function parseMachineKey(did: string): MachineKey {
  const key = did.startsWith(DID_KEY)
    ? parseMultikey(did.slice(DID_KEY.length))
    : did.startsWith(DID_JWK)
      ? parseJwk(did.slice(DID_JWK.length))
      : undefined
  if (key !== undefined) return key
  const expected = 'did:key or did:jwk with a public key of P-256, Ed25519 or secp256k1, or did:ethr'
  throw new DidAuthError('ERR_DID_UNSUPPORTED', { reason: { check: 'did', expected } })
}

function parseMultikey(encoded: string): MachineKey | undefined {
  const bytes = decodeBase58(encoded)
  const kind = bytes && KIND_BY_CODEC.get(encodeHex(bytes.subarray(0, 2)))
  if (bytes === undefined || kind === undefined) return undefined
  const key = bytes.subarray(2)
  if (kind === 'Ed25519') return isEd25519Key(key) ? { kind, bytes: key } : undefined
  return key.length === 33 && (key[0] === 2 || key[0] === 3) ? { kind, bytes: key } : undefined
}

function parseJwk(encoded: string): MachineKey | undefined {
  const jwk = parseUniqueMembers(decodeBase64url(encoded))
  if (jwk === undefined || PRIVATE_MEMBERS.some((name) => Object.hasOwn(jwk, name))) return undefined
  const kind = findKind(readField(jwk, 'kty'), readField(jwk, 'crv'))
  if (kind === undefined || !maySign(jwk, ALGORITHMS_BY_KIND[kind])) return undefined
  const [x, y] = ['x', 'y'].map((name) => parseCoordinate(readField(jwk, name)))
  if (x === undefined) return undefined
  if (kind === 'Ed25519') return isEd25519Key(x) && !Object.hasOwn(jwk, 'y') ? { kind, bytes: x } : undefined
  return y && { kind, bytes: Uint8Array.of(4, ...x, ...y) }
}

/** Parses a JSON object. Returns undefined if a name occurs twice, because parsers differ in which member they keep. */
function parseUniqueMembers(bytes: Uint8Array | undefined): Record<string, unknown> | undefined {
  try {
    const text = UTF_8.decode(bytes)
    const value: unknown = JSON.parse(text)
    const names = [...text.matchAll(JSON_STRING)].filter(([, colon]) => colon !== undefined)
    return isObject(value) && Object.keys(value).length === names.length ? value : undefined
  } catch {
    return undefined
  }
}

function findKind(kty: unknown, crv: unknown): MachineKey['kind'] | undefined {
  if (kty === 'EC') return crv === 'P-256' || crv === 'secp256k1' ? crv : undefined
  return kty === 'OKP' && crv === 'Ed25519' ? crv : undefined
}

/** Whether the optional members of a key allow signatures. @see RFC 7517, sections 4.2 to 4.4 */
function maySign(jwk: Record<string, unknown>, algorithms: readonly unknown[]): boolean {
  const { use = 'sig', key_ops: operations = ['verify'], alg = algorithms[0] } = jwk
  return use === 'sig' && Array.isArray(operations) && operations.includes('verify') && algorithms.includes(alg)
}

function parseCoordinate(value: unknown): Uint8Array | undefined {
  const bytes = typeof value === 'string' ? decodeBase64url(value) : undefined
  return bytes?.length === 32 ? bytes : undefined
}
