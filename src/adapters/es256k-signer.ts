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

/** A private key, or what is wrong with it, without showing it. */
type PrivateKey = { key: Uint8Array; problem: undefined } | { key: undefined; problem: string }

const ownKeys = new WeakMap<object, PrivateKey>()

/**
 * A fast ES256K signer for `serviceSigner`, which did-jwt accepts as well.
 * @param privateKey - 32 bytes, or 64 hexadecimal digits with or without `0x`. For anything else `setupDidAuth` throws
 * ERR_CONFIG, together with the other problems of a configuration, and the signer itself rejects with a TypeError
 */
export function es256kSigner(privateKey: string | Uint8Array): (data: string | Uint8Array) => Promise<string> {
  const own = readPrivateKey(privateKey)
  const signer = async (data: string | Uint8Array): Promise<string> =>
    Buffer.from(signWith(await loadCurve(), parseKey(own), data)).toString('base64url')
  ownKeys.set(signer, own)
  return signer
}

/** Signs at once: the promise and the text form cost a third of the signature. @returns 64 bytes */
export function signWith(curve: Curve, key: Uint8Array, data: string | Uint8Array): Uint8Array {
  return curve.sign(curve.sha256(data), key).signature
}

/** Returns the key of a signer by {@link es256kSigner}; undefined for others, which may be remote or change keys. */
export function findLocalKey(signer: unknown): PrivateKey | undefined {
  return typeof signer === 'function' ? ownKeys.get(signer) : undefined
}

/**
 * The DID of a private key as for {@link es256kSigner}: `did:ethr:<network>:<address in lower case>`.
 * @param network - default `rsk`; empty for Ethereum main net
 * @throws TypeError when it is not a private key of secp256k1; the message does not show it
 */
export async function didOfPrivateKey(privateKey: string | Uint8Array, network = DEFAULT_NETWORK): Promise<string> {
  return computeDid(await loadCurve(), readPrivateKey(privateKey), network)
}

/** Computes the DID of a private key that was read. @throws TypeError when it is none */
export function computeDid(curve: Curve, read: PrivateKey, network = DEFAULT_NETWORK): string {
  const publicKey = curve.publicKeyOf(parseKey(read))
  if (publicKey === undefined) throw new TypeError(OUT_OF_RANGE)
  return ethrDid(network, addressOfPublicKey(curve, publicKey))
}

function parseKey({ key, problem }: PrivateKey): Uint8Array {
  if (key === undefined) throw new TypeError(problem)
  return key
}

/** Whether a value is a private key as for {@link es256kSigner}, in the range of secp256k1. */
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
  // Both halves of a signature have the range of a private key.
  if (!isInRange(Buffer.concat([key, key]))) return { key: undefined, problem: OUT_OF_RANGE }
  return { key: Uint8Array.from(key), problem: undefined }
}

/** Loaded with the first token, because its import takes as long as that of this package. */
const didJwt = createLazy(() => import('did-jwt'))

/** Issues a payload as ES256K JWT, by did-jwt, which adds nothing: it would put the wall clock into an absent `iat`. */
export async function issueJwt(
  payload: JsonObject & { iss: string; iat: number },
  sign: (data: string) => Promise<Uint8Array>
): Promise<string> {
  const { createJWT } = await didJwt()
  // did-jwt gives its signers text, also where their type has bytes as well.
  const signer = async (data: string | Uint8Array): Promise<string> =>
    Buffer.from(await sign(String(data))).toString('base64url')
  return createJWT(payload, { issuer: payload.iss, signer }, { alg: 'ES256K', typ: 'JWT' })
}
