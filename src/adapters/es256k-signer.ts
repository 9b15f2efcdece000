import { Buffer } from 'node:buffer'
import { createLazy } from '../lazy.js'
import { addressOfPublicKey, type Curve } from '../protocol/curve.js'
import { ethrDid } from '../protocol/did.js'
import { isInRange } from '../protocol/ecdsa-signature.js'
import type { JsonObject } from '../protocol/json.js'
import { loadCurve } from './curve.js'

const PRIVATE_KEY = /^(?:0x)?[0-9a-fA-F]{64}$/
const DEFAULT_NETWORK = 'rsk'
const OUT_OF_RANGE = 'the private key is not in the range of secp256k1'

/** A private key, or a description of the problem with it, which never contains the key. */
type PrivateKey = { key: Uint8Array; problem: undefined } | { key: undefined; problem: string }

const localKeys = new WeakMap<object, PrivateKey>()

/**
 * Creates a fast ES256K signer for `serviceSigner`. did-jwt accepts it as well.
 *
 * It does not throw for an invalid key. Instead `setupDidAuth` throws ERR_CONFIG, which lists all problems at once, and
 * the signer itself rejects with a TypeError.
 * @param privateKey - 32 bytes, or 64 hexadecimal digits with or without `0x`
 */
export function es256kSigner(privateKey: string | Uint8Array): (data: string | Uint8Array) => Promise<string> {
  const localKey = readPrivateKey(privateKey)
  const signer = async (data: string | Uint8Array): Promise<string> =>
    Buffer.from(signWith(await loadCurve(), parseKey(localKey), data)).toString('base64url')
  localKeys.set(signer, localKey)
  return signer
}

/** Signs synchronously: a promise and base64url would cost a third of the signature. @returns 64 bytes */
export function signWith(curve: Curve, key: Uint8Array, data: string | Uint8Array): Uint8Array {
  return curve.sign(curve.sha256(data), key).signature
}

/** Returns the key of a signer by {@link es256kSigner}; undefined for others, which may be remote or change keys. */
export function findLocalKey(signer: unknown): PrivateKey | undefined {
  return typeof signer === 'function' ? localKeys.get(signer) : undefined
}

/**
 * Computes the DID of a private key: `did:ethr:<network>:<address in lower case>`.
 * @param privateKey - as for {@link es256kSigner}
 * @param network - default `rsk`; empty for Ethereum main net
 * @throws TypeError if it is not a private key of secp256k1; the message does not contain the key
 */
export async function didOfPrivateKey(privateKey: string | Uint8Array, network = DEFAULT_NETWORK): Promise<string> {
  return computeDid(await loadCurve(), readPrivateKey(privateKey), network)
}

/** Computes the DID of a private key. @throws TypeError if the key is invalid */
export function computeDid(curve: Curve, privateKey: PrivateKey, network = DEFAULT_NETWORK): string {
  const publicKey = curve.publicKeyOf(parseKey(privateKey))
  if (publicKey === undefined) throw new TypeError(OUT_OF_RANGE)
  return ethrDid(network, addressOfPublicKey(curve, publicKey))
}

function parseKey({ key, problem }: PrivateKey): Uint8Array {
  if (key === undefined) throw new TypeError(problem)
  return key
}

/** Whether a value is a valid private key for {@link es256kSigner}. */
export function isPrivateKey(value: unknown): value is string | Uint8Array {
  return readPrivateKey(value).key !== undefined
}

function readPrivateKey(privateKey: unknown): PrivateKey {
  const key =
    typeof privateKey === 'string' && PRIVATE_KEY.test(privateKey)
      ? Buffer.from(privateKey.replace(/^0x/, ''), 'hex')
      : privateKey
  if (!(key instanceof Uint8Array) || key.length !== 32) {
    return { key: undefined, problem: 'give a private key of 32 bytes, or its 64 hexadecimal digits' }
  }
  // A private key has the same range as each half of a signature.
  if (!isInRange(Buffer.concat([key, key]))) return { key: undefined, problem: OUT_OF_RANGE }
  return { key: Uint8Array.from(key), problem: undefined }
}

/** did-jwt, loaded with the first token: its import takes as long as that of this package. */
const didJwt = createLazy(() => import('did-jwt'))

/** Issues a payload as an ES256K JWT by did-jwt. The payload needs an `iat`, or did-jwt would add one by its clock. */
export async function issueJwt(
  payload: JsonObject & { iss: string; iat: number },
  sign: (data: string) => Promise<Uint8Array>
): Promise<string> {
  const { createJWT } = await didJwt()
  // did-jwt passes only text to signers, although their type allows bytes.
  const signer = async (data: string | Uint8Array): Promise<string> =>
    Buffer.from(await sign(String(data))).toString('base64url')
  return createJWT(payload, { issuer: payload.iss, signer }, { alg: 'ES256K', typ: 'JWT' })
}
