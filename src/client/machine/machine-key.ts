import type { DeviceKeyPair } from '../wire/browser.js'
import { parseFields } from '../wire/json.js'
import { concatBytes, decodeBase64url, encodeHex, getSubtle, type Bytes } from '../wire/seal.js'

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
  const pair = await getSubtle().generateKey(P256, true, ['sign', 'verify'])
  const { kty, crv, x, y, d } = (await getSubtle().exportKey('jwk', pair.privateKey)) as MachineJwk
  // A compressed point starts with 2 or 3, as y is even or odd.
  const parity = (decodeBase64url(y ?? '').at(-1) ?? 0) % 2
  const point = concatBytes([P256_MULTICODEC, [2 + parity], decodeBase64url(x ?? '')])
  return { did: `did:key:z${encodeBase58(point)}`, privateKey: { kty, crv, x, y, d } }
}

/** Encodes bytes of which the first is not zero, in the alphabet of Bitcoin. */
function encodeBase58(bytes: Bytes): string {
  let text = ''
  for (let rest = BigInt(`0x${encodeHex(bytes)}`); rest > 0n; rest /= 58n)
    text = BASE58.charAt(Number(rest % 58n)) + text
  return text
}

/** Loads a key. @throws TypeError for a key of another kind; DidAuthClientError INSECURE */
export async function loadSigner(key: MachineKey): Promise<MachineSigner> {
  if (key.sign) return { alg: key.alg, sign: key.sign }
  getSubtle()
  try {
    return await importKey(key.privateKey)
  } catch (cause) {
    throw new TypeError('privateKey: expected a private key of P-256, Ed25519 or secp256k1', { cause })
  }
}

async function importKey(key: MachineJwk | MachineCryptoKey | string): Promise<MachineSigner> {
  // A key of WebCrypto has `algorithm`, and a JWK the other members.
  const { algorithm, kty, crv, x, y, d } = parseFields(key)
  const { name = crv, namedCurve = name } = parseFields(algorithm)
  if (typeof key === 'string') return createHexSigner(key.replace(/^0x/, ''))
  if (namedCurve === 'secp256k1') return createHexSigner(encodeHex(decodeBase64url(String(d))))
  if (namedCurve !== 'P-256' && namedCurve !== 'Ed25519') throw new Error('another kind of key')
  const [alg, rule] = namedCurve === 'P-256' ? (['ES256', P256] as const) : (['EdDSA', ED25519] as const)
  const cryptoKey = algorithm
    ? (key as MachineCryptoKey)
    : await getSubtle().importKey('jwk', { kty, crv, x, y, d } as object, rule, false, ['sign'])
  return { alg, sign: async (input) => new Uint8Array(await getSubtle().sign(rule, cryptoKey, input)) }
}

/** Creates a signer by a key of secp256k1. @throws Error for other text */
async function createHexSigner(hex: string): Promise<MachineSigner> {
  const { secp256k1 } = await import('@noble/curves/secp256k1.js')
  if (!secp256k1.utils.isValidSecretKey(hex)) throw new Error('not a key of secp256k1')
  const sign: SignBytes = async (input) => {
    const hash = new Uint8Array(await getSubtle().digest('SHA-256', input))
    return secp256k1.sign(hash, hex, { lowS: true }).toBytes('compact')
  }
  return { alg: 'ES256K', sign }
}
