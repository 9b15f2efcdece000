import { DidAuthError, type RefusalReason } from '../errors.js'
import { addressOfPublicKey, type Curve } from '../protocol/curve.js'
import { isEd25519Key } from '../protocol/ed25519-key.js'
import { decodeBase58, decodeBase64url, decodeHex, encodeHex } from '../protocol/encoding.js'
import { readField, isObject } from '../protocol/json.js'

/**
 * Limits of a DID document. A document with more is refused. Documents are untrusted: anyone may be an issuer, or log
 * in with `didControl: 'document'`.
 */
const MAX_METHODS = 100
const MAX_DOCUMENT_BYTES = 64 * 1024

const UTF_8 = new TextEncoder()

/** Resolution errors of an unusable DID. Any other error means that the network is unavailable. */
const FINAL_ERRORS: ReadonlySet<unknown> = new Set(
  'invalidDid unsupportedDidMethod methodNotSupported unknownNetwork representationNotSupported'.split(' ')
)

/** List of a document that has to contain a key. */
export type KeyPurpose = 'assertionMethod' | 'authentication'

/** A key that a document lists. */
export interface ListedKey extends IssuerKey {
  /** Absolute id, beginning with the DID. */
  id: string | undefined
}

/**
 * Parses a DID resolution result: the keys of supported kinds that the document lists for a purpose.
 * @returns at least one key, and the length of the document as JSON, in bytes
 * @throws DidAuthError ERR_RESOLVER if the resolution failed; ERR_CREDENTIAL_ISSUER for a DID without usable keys
 * @see W3C DID Resolution 0.3, "DID Resolution Result"
 */
export function parseResolution(
  did: string,
  result: unknown,
  purpose: KeyPurpose
): { keys: readonly ListedKey[]; bytes: number } {
  const isDeactivated = readField(readField(result, 'didDocumentMetadata'), 'deactivated') === true
  // Some resolvers return no document for a deactivated DID.
  if (isDeactivated) throw createRefusal('it is deactivated', KEYLESS)
  const error = readField(readField(result, 'didResolutionMetadata'), 'error')
  const document = readField(result, 'didDocument')
  if (error !== undefined || !isObject(document)) {
    // Every did:ethr exists, so that `notFound` means that the node did not answer.
    const isFinal = FINAL_ERRORS.has(error) || (error === 'notFound' && !did.startsWith('did:ethr:'))
    const reason = typeof error === 'string' ? error.slice(0, 100) : 'no DID document'
    const cause = new Error(`resolution of the DID failed: ${reason}`)
    throw new DidAuthError(isFinal ? 'ERR_CREDENTIAL_ISSUER' : 'ERR_RESOLVER', { cause })
  }
  const json = toBoundedJson(document)
  const keys = listKeys(did, JSON.parse(json) as Record<string, unknown>, purpose)
  if (keys.length === 0) throw createRefusal('it has no key for this purpose', KEYLESS)
  return { keys, bytes: UTF_8.encode(json).length }
}

/** Lists the key of each listed method once. The work is linear in the length of the document. */
function listKeys(did: string, document: Record<string, unknown>, purpose: KeyPurpose): ListedKey[] {
  const methods = readList(document, 'verificationMethod').filter(isObject)
  const entries = readList(document, purpose)
  if (methods.length + entries.filter(isObject).length > MAX_METHODS)
    throw createRefusal('it has more than 100 methods')
  const readId = ({ id }: Record<string, unknown>): string | undefined =>
    typeof id === 'string' ? toAbsoluteKeyId(did, id) : undefined
  // The first of several methods with the same id is used.
  const methodById = new Map(methods.toReversed().map((method) => [readId(method), method]))
  const listed = entries.map((entry) =>
    typeof entry === 'string' ? methodById.get(toAbsoluteKeyId(did, entry)) : entry
  )
  return [...new Set(listed.filter(isObject))].flatMap((method) => {
    const key = parseIssuerKey(method)
    return key === undefined ? [] : [{ id: readId(method), ...key }]
  })
}

/** Returns the absolute form of a key id or `kid`, which begins with the DID. */
export function toAbsoluteKeyId(did: string, id: string): string {
  return id.startsWith('#') ? `${did}${id}` : id
}

function readList(document: Record<string, unknown>, name: string): unknown[] {
  const value = readField(document, name)
  return Array.isArray(value) ? value : []
}

/** Returns a document as JSON of at most 64 KiB. A resolver's document may have cycles or getters that throw. */
function toBoundedJson(document: unknown): string {
  let remaining = MAX_DOCUMENT_BYTES
  const count = (_name: string, member: unknown): unknown => {
    remaining -= typeof member === 'string' ? member.length : 1
    if (remaining < 0) throw new RangeError('too long')
    return typeof member === 'bigint' ? String(member) : member
  }
  try {
    const json = JSON.stringify(document, count)
    if (UTF_8.encode(json).length <= MAX_DOCUMENT_BYTES) return json
  } catch {
    // The error below covers this case.
  }
  throw createRefusal('its document has more than 64 KiB, or cannot be read')
}

/**
 * Reason for refusing a DID that is deactivated, or whose document was read and has no usable key. After any other
 * refusal, it is unknown whether the DID has keys.
 */
export const KEYLESS: RefusalReason = { check: 'document', expected: 'a key for this purpose' }

function createRefusal(why: string, reason?: RefusalReason): DidAuthError {
  const cause = new Error(`the DID is not accepted: ${why}`)
  return new DidAuthError('ERR_CREDENTIAL_ISSUER', { cause, ...(reason && { reason }) })
}

/** Maximum length of a key's text, in characters. */
const MAX_KEY_LENGTH = 1024

/**
 * A key of an issuer, with its bytes in lower-case hexadecimal: an address of 20 bytes, a point of 33 or 65 bytes, or
 * an Ed25519 key of 32 bytes. The kind `ecdsa` is a point whose curve the method's type does not name.
 */
export type IssuerKey = { kind: 'address' | 'secp256k1' | 'P-256' | 'ecdsa' | 'Ed25519'; hex: string }

/** Bytes of a verification method's key, with the curve if the encoding names it. */
type KeyBytes = { bytes: Uint8Array; curve?: 'secp256k1' | 'P-256' | 'Ed25519' }

/** An address, or a CAIP-10 account id in the current or the older order. */
const ADDRESS = /^(?:eip155:\d+:)?0x([0-9a-f]{40})(?:@eip155(?::\d+)?)?$/i

/** Curve by the type name of a verification method. Undefined: keys of this type cannot sign. */
const CURVE_BY_TYPE: readonly (readonly [RegExp, KeyBytes['curve'] | undefined])[] = [
  [/secp256k1/i, 'secp256k1'],
  [/secp256r1/i, 'P-256'],
  [/x25519/i, undefined],
  [/ed25519/i, 'Ed25519']
]

/** Curve by the multicodec of a key: a varint in hexadecimal. */
const CURVE_BY_CODEC: ReadonlyMap<string, NonNullable<KeyBytes['curve']>> = new Map([
  ['ed01', 'Ed25519'],
  ['e701', 'secp256k1'],
  ['8024', 'P-256']
])
/** Lengths in bytes of keys without a multicodec prefix. */
const BARE_LENGTHS: ReadonlySet<number> = new Set([32, 33, 65])

/**
 * Parses the key of a verification method. If the method names an address, its other keys are ignored.
 * @returns undefined if the method has no key of a supported kind
 * @throws DidAuthError ERR_CREDENTIAL_ISSUER if the key is longer than 1 KiB
 * @see W3C DID Core 1.0, section 5.2.1; did:ethr method specification; multicodec table
 */
export function parseIssuerKey(method: Record<string, unknown>): IssuerKey | undefined {
  const [, address] = ADDRESS.exec(readText(method.ethereumAddress) ?? readText(method.blockchainAccountId) ?? '') ?? []
  if (address !== undefined) return { kind: 'address', hex: address.toLowerCase() }
  const key = parseJwk(method.publicKeyJwk) ?? parseMultibase(readMultibase(method))
  if (key === undefined) return undefined
  const kind = key.curve ?? findKind(method.type)
  return kind !== undefined && hasKeyShape(kind, key.bytes) ? { kind, hex: encodeHex(key.bytes) } : undefined
}

/** Whether a key may make secp256k1 signatures, from which public keys can be recovered. */
export function isSecp256k1Key({ kind }: IssuerKey): boolean {
  return kind === 'address' || kind === 'secp256k1' || kind === 'ecdsa'
}

/** Lists the three forms of a public key of 65 bytes in documents: uncompressed, compressed, address. */
export function listKeyForms(curve: Pick<Curve, 'keccak256Hex'>, publicKey: Uint8Array): string[] {
  const sign = (publicKey[64] ?? 0) % 2 === 0 ? '02' : '03'
  const compressed = sign + encodeHex(publicKey.subarray(1, 33))
  return [encodeHex(publicKey), compressed, addressOfPublicKey(curve, publicKey).slice(2)]
}

function parseJwk(jwk: unknown): KeyBytes | undefined {
  const curve = readField(jwk, 'crv')
  const [x, y] = ['x', 'y'].map((name) => decodeBase64(readText(readField(jwk, name)) ?? ''))
  if (x === undefined) return undefined
  if (curve === 'Ed25519') return { bytes: x, curve }
  if (y === undefined || (curve !== 'secp256k1' && curve !== 'P-256')) return undefined
  return { bytes: Uint8Array.of(4, ...decodeCoordinate(x), ...decodeCoordinate(y)), curve }
}

/** Restores the leading zeros of a coordinate, which some libraries omit. */
function decodeCoordinate(bytes: Uint8Array): Uint8Array {
  return Uint8Array.of(...new Uint8Array(Math.max(0, 32 - bytes.length)), ...bytes)
}

/** Reads a key from any field as multibase: a letter for the encoding, then the encoded bytes. */
function readMultibase(method: Record<string, unknown>): string {
  const fields = { '': 'publicKeyMultibase', z: 'publicKeyBase58', u: 'publicKeyBase64', f: 'publicKeyHex' }
  for (const [letter, field] of Object.entries(fields)) {
    const text = readText(method[field])
    if (text !== undefined) return letter + text
  }
  return ''
}

function parseMultibase(text: string): KeyBytes | undefined {
  const bytes = decodeMultibase(text)
  if (bytes === undefined || BARE_LENGTHS.has(bytes.length)) return bytes && { bytes }
  const curve = CURVE_BY_CODEC.get(encodeHex(bytes.subarray(0, 2)))
  return curve && { bytes: bytes.subarray(2), curve }
}

/** Decodes the three multibase encodings of keys: Base58, Base64 and hexadecimal. */
function decodeMultibase(text: string): Uint8Array | undefined {
  const encoded = text.slice(1)
  if (text.startsWith('z')) return decodeBase58(encoded)
  if (text.startsWith('u')) return decodeBase64(encoded)
  const [, digits] = /^f(?:0x)?((?:[0-9a-f]{2})+)$/i.exec(text) ?? []
  return digits === undefined ? undefined : decodeHex(digits)
}

/** Decodes base64 of either alphabet, with or without padding. */
function decodeBase64(text: string): Uint8Array | undefined {
  const unpadded = text.replace(/={1,2}$/, '')
  return decodeBase64url(unpadded.replaceAll('+', '-').replaceAll('/', '_'))
}

function findKind(type: unknown): IssuerKey['kind'] | undefined {
  const entry = CURVE_BY_TYPE.find(([name]) => name.test(readText(type) ?? ''))
  return entry === undefined ? 'ecdsa' : entry[1]
}

function hasKeyShape(kind: IssuerKey['kind'], bytes: Uint8Array): boolean {
  if (kind === 'Ed25519') return isEd25519Key(bytes)
  return bytes.length === 65 ? bytes[0] === 4 : bytes.length === 33 && (bytes[0] === 2 || bytes[0] === 3)
}

function readText(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined
  if (value.length > MAX_KEY_LENGTH) throw createRefusal('it has a key of more than 1 KiB')
  return value
}
