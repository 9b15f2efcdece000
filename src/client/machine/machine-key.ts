import type { DeviceKeyPair } from '../wire/browser.js'
import { parseFields } from '../wire/json.js'
import { loadCode } from '../wire/request.js'
import { concatBytes, decodeBase64url, encodeHex, type Bytes } from '../wire/seal.js'

/** A private key as JWK: P-256, Ed25519 or secp256k1 (RFC 7518, section 6.2; RFC 8037; RFC 8812). */
export type MachineJwk = { readonly [Member in 'kty' | 'crv' | 'x' | 'y' | 'd']?: string | undefined }

/** A private key of WebCrypto: ECDSA with P-256, or Ed25519. */
export type MachineCryptoKey = DeviceKeyPair['privateKey']

/** Algorithm of a signature: P-256, Ed25519 or secp256k1. */
export type MachineAlgorithm = 'ES256' | 'EdDSA' | 'ES256K'

/** Signs bytes, and returns the signature as in a JWS: 64 bytes. @see RFC 7518, section 3.4 */
export type SignBytes = (input: Uint8Array<ArrayBuffer>) => Uint8Array | Promise<Uint8Array>

/** Key of a machine: a private key, or a function that signs, such as one of a key management service. */
export type MachineKey =
  | {
      /** A JWK, a key of WebCrypto, or 64 hexadecimal digits of a secp256k1 key. */
      readonly privateKey: MachineJwk | MachineCryptoKey | string
      readonly sign?: undefined
    }
  | { readonly privateKey?: undefined; readonly alg: MachineAlgorithm; readonly sign: SignBytes }

/** Signer of assertions. */
export interface MachineSigner {
  readonly alg: MachineAlgorithm
  readonly sign: SignBytes
}

const HEX_KEY = /^(?:0x)?([0-9a-f]{64})$/i
const P256 = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const ED25519 = { name: 'Ed25519' }
const P256_MULTICODEC = [0x80, 0x24]
const BASE58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'

/**
 * Creates a key for a machine, and its DID. Store both: the key is the machine's only proof of who it is.
 *
 * @returns a private key (P-256) as JWK, and its `did:key`
 * @see did:key method specification
 * @example
 * const { did, privateKey } = await createMachineKey()
 * console.log(JSON.stringify({ did, privateKey }))
 */
export async function createMachineKey(): Promise<{ did: string; privateKey: MachineJwk }> {
  const pair = await crypto.subtle.generateKey(P256, true, ['sign', 'verify'])
  const { kty, crv, x, y, d } = (await crypto.subtle.exportKey('jwk', pair.privateKey)) as MachineJwk
  const sign = 2 + ((decodeBase64url(y ?? '').at(-1) ?? 0) % 2)
  const point = concatBytes([P256_MULTICODEC, [sign], decodeBase64url(x ?? '')])
  return { did: `did:key:z${encodeBase58(point)}`, privateKey: { kty, crv, x, y, d } }
}

/** Encodes bytes of which the first is not zero, in the alphabet of Bitcoin. */
function encodeBase58(bytes: Bytes): string {
  let text = ''
  for (let rest = BigInt(`0x${encodeHex(bytes)}`); rest > 0n; rest /= 58n)
    text = BASE58.charAt(Number(rest % 58n)) + text
  return text
}

/** Loads a key. @throws TypeError for a key of another kind; DOMException for a JWK that is no key */
export async function loadSigner(key: MachineKey): Promise<MachineSigner> {
  if (key.sign) return { alg: key.alg, sign: key.sign }
  const { privateKey } = key
  if (typeof privateKey === 'string') return createHexSigner(HEX_KEY.exec(privateKey)?.[1])
  // One of the two has each member: `algorithm` is a WebCrypto key's.
  const { algorithm, kty, crv, x, y, d } = parseFields(privateKey)
  const { name = crv, namedCurve = name } = parseFields(algorithm)
  if (namedCurve === 'secp256k1') return createHexSigner(encodeHex(decodeBase64url(typeof d === 'string' ? d : '')))
  const [alg, rule] = namedCurve === 'P-256' ? (['ES256', P256] as const) : (['EdDSA', ED25519] as const)
  if (!['P-256', 'Ed25519'].includes(String(namedCurve))) throw TypeError('privateKey: not P-256, Ed25519 or secp256k1')
  const cryptoKey = algorithm
    ? (privateKey as MachineCryptoKey)
    : await crypto.subtle.importKey('jwk', { kty, crv, x, y, d } as object, rule, false, ['sign'])
  return { alg, sign: async (input) => new Uint8Array(await crypto.subtle.sign(rule, cryptoKey, input)) }
}

/** Creates a signer by a key of secp256k1. */
function createHexSigner(hex = ''): MachineSigner {
  if (!HEX_KEY.test(hex)) throw TypeError('privateKey: expected 64 hexadecimal digits')
  const sign: SignBytes = async (input) => {
    const { secp256k1 } = await loadCode(() => import('@noble/curves/secp256k1.js'))
    const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', input))
    return secp256k1.sign(hash, hex, { lowS: true }).toBytes('compact')
  }
  return { alg: 'ES256K', sign }
}
