import { DidAuthError } from '../errors.js'
import { decodeBase64url } from '../protocol/encoding.js'
import { bytesOfHex, hexOfBytes } from '../protocol/encoding.js'
import { fieldOf } from '../protocol/json.js'

/** Longest text of a key, in characters. */
const MAX_KEY_LENGTH = 1024
/** Longest Base58 that is decoded: the cost grows with the square of its length, and 67 bytes are 92 characters. */
const MAX_BASE58_LENGTH = 128
const BASE58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'

/**
 * What an issuer's key is, with its bytes in lower-case hexadecimal: the 20 bytes of an address, a point of 33 or 65
 * bytes, or the 32 bytes of Ed25519. `ecdsa` is a point of a method whose type does not tell the curve.
 */
export interface IssuerKey {
  kind: 'address' | 'secp256k1' | 'P-256' | 'ecdsa' | 'Ed25519'
  hex: string
}

type KeyCurve = 'secp256k1' | 'P-256' | 'Ed25519'

/** The bytes of a verification method, with the curve where their encoding names it. */
interface KeyBytes {
  bytes: Uint8Array
  curve?: KeyCurve
}

const EIP_155_ACCOUNT = /^(?:eip155:\d+:0x([0-9a-f]{40})|0x([0-9a-f]{40})@eip155(?::\d+)?)$/i
const ETHEREUM_ADDRESS = /^0x([0-9a-f]{40})$/i

/** Type names of verification methods in use, by what stands in them. */
const CURVE_BY_TYPE: readonly (readonly [RegExp, KeyCurve | undefined])[] = [
  [/secp256k1/i, 'secp256k1'],
  [/secp256r1/i, 'P-256'],
  [/x25519/i, undefined],
  [/ed25519/i, 'Ed25519']
]

/** Multicodec: the code of each key as varint, in hexadecimal. */
const CURVE_BY_CODEC: ReadonlyMap<string, KeyCurve> = new Map([
  ['ed01', 'Ed25519'],
  ['e701', 'secp256k1'],
  ['8024', 'P-256']
])
/** Lengths of keys without a codec before them. */
const BARE_LENGTHS: ReadonlySet<number> = new Set([32, 33, 65])

/**
 * Reads the key of a verification method. A method that names an address counts as an address, also when it has other fields.
 *
 * @returns undefined when there is none that we verify with
 * @throws DidAuthError ERR_CREDENTIAL_ISSUER when it is longer than 1 KiB
 * @see W3C DID Core 1.0, section 5.2.1; did:ethr method specification; multicodec table
 */
export function parseIssuerKey(method: Record<string, unknown>): IssuerKey | undefined {
  const address = parseAddress(method)
  if (address !== undefined) return { kind: 'address', hex: address.toLowerCase() }
  const key = parseJwk(method.publicKeyJwk) ?? parseEncodedKey(method)
  if (key === undefined) return undefined
  const kind = key.curve ?? kindByType(method.type)
  return kind !== undefined && hasShapeOf(kind, key.bytes) ? { kind, hex: hexOfBytes(key.bytes) } : undefined
}

function parseAddress(method: Record<string, unknown>): string | undefined {
  const address = textOf(method.ethereumAddress)
  if (address !== undefined) return ETHEREUM_ADDRESS.exec(address)?.[1]
  const match = EIP_155_ACCOUNT.exec(textOf(method.blockchainAccountId) ?? '')
  return match?.[1] ?? match?.[2]
}

function parseJwk(jwk: unknown): KeyBytes | undefined {
  const curve = fieldOf(jwk, 'crv')
  const [x, y] = [textOf(fieldOf(jwk, 'x')), textOf(fieldOf(jwk, 'y'))]
  if (x === undefined) return undefined
  const bytesOfX = decodeBase64(x)
  if (bytesOfX === undefined) return undefined
  if (curve === 'Ed25519') return { bytes: bytesOfX, curve }
  const bytesOfY = decodeBase64(y ?? '')
  if (bytesOfY === undefined || (curve !== 'secp256k1' && curve !== 'P-256')) return undefined
  return { bytes: Uint8Array.of(4, ...coordinate(bytesOfX), ...coordinate(bytesOfY)), curve }
}

/** Some libraries leave out leading zeros. */
function coordinate(bytes: Uint8Array): Uint8Array {
  return Uint8Array.of(...new Uint8Array(Math.max(0, 32 - bytes.length)), ...bytes)
}

/** Base64 of either alphabet, with or without padding. */
function decodeBase64(text: string): Uint8Array | undefined {
  const unpadded = text.replace(/={1,2}$/, '')
  return decodeBase64url(unpadded.replaceAll('+', '-').replaceAll('/', '_'))
}

function parseEncodedKey(method: Record<string, unknown>): KeyBytes | undefined {
  const { publicKeyMultibase, publicKeyBase58, publicKeyBase64, publicKeyHex } = method
  const multibase = textOf(publicKeyMultibase)
  if (multibase !== undefined) return parseMultibase(multibase)
  const [base58, base64, hex] = [textOf(publicKeyBase58), textOf(publicKeyBase64), textOf(publicKeyHex)]
  const bytes =
    base58 !== undefined ? decodeBase58(base58) : base64 !== undefined ? decodeBase64(base64) : decodeHex(hex ?? '')
  return bytes === undefined ? undefined : { bytes }
}

function parseMultibase(text: string): KeyBytes | undefined {
  const bytes = decodeMultibase(text)
  if (bytes === undefined || BARE_LENGTHS.has(bytes.length)) return bytes && { bytes }
  const curve = CURVE_BY_CODEC.get(hexOfBytes(bytes.subarray(0, 2)))
  return curve === undefined ? undefined : { bytes: bytes.subarray(2), curve }
}

/** The three multibase encodings that keys are written in. */
function decodeMultibase(text: string): Uint8Array | undefined {
  const rest = text.slice(1)
  if (text.startsWith('z')) return decodeBase58(rest)
  if (text.startsWith('u')) return decodeBase64(rest)
  return text.startsWith('f') || text.startsWith('F') ? decodeHex(rest) : undefined
}

function decodeHex(text: string): Uint8Array | undefined {
  const digits = text.replace(/^0x/i, '')
  if (!/^[0-9a-f]+$/i.test(digits)) return undefined
  return bytesOfHex(digits.length % 2 === 0 ? digits : `0${digits}`)
}

function decodeBase58(text: string): Uint8Array | undefined {
  if (text === '' || text.length > MAX_BASE58_LENGTH) return undefined
  let number = 0n
  for (const letter of text) {
    const digit = BASE58.indexOf(letter)
    if (digit === -1) return undefined
    number = number * 58n + BigInt(digit)
  }
  const hex = number === 0n ? '' : number.toString(16)
  const zeros = /^1*/.exec(text)?.[0].length ?? 0
  return Uint8Array.of(...new Uint8Array(zeros), ...bytesOfHex(hex.length % 2 === 0 ? hex : `0${hex}`))
}

function kindByType(type: unknown): IssuerKey['kind'] | undefined {
  const found = CURVE_BY_TYPE.find(([name]) => name.test(textOf(type) ?? ''))
  return found === undefined ? 'ecdsa' : found[1]
}

function hasShapeOf(kind: IssuerKey['kind'], bytes: Uint8Array): boolean {
  if (kind === 'Ed25519') return bytes.length === 32
  return bytes.length === 65 ? bytes[0] === 4 : bytes.length === 33 && (bytes[0] === 2 || bytes[0] === 3)
}

function textOf(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined
  if (value.length > MAX_KEY_LENGTH) {
    throw new DidAuthError('ERR_CREDENTIAL_ISSUER', { cause: new Error('an issuer has a key of more than 1 KiB') })
  }
  return value
}
