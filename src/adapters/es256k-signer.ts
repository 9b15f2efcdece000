import { Buffer } from 'node:buffer'
import { lazy } from '../lazy.js'
import { addressOfPublicKey, type Curve } from '../protocol/curve.js'
import { isInRange } from '../protocol/ecdsa-signature.js'
import type { JsonObject } from '../protocol/json.js'
import { loadCurve } from './curve.js'

const PRIVATE_KEY = /^(?:0x)?[0-9a-fA-F]{64}$/
const DEFAULT_NETWORK = 'rsk'
const OUT_OF_RANGE = 'the private key is not in the range of secp256k1'

/** Signs synchronously: 64 bytes over SHA-256 of the text. */
export type LocalSigner = (curve: Pick<Curve, 'sha256' | 'sign'>, data: string | Uint8Array) => Uint8Array

/** What is known of a signer of ours beside its signatures. */
export interface OwnSigner {
  /** The promise and the text form cost a third of the signature. @throws TypeError as `problem` says */
  sign: LocalSigner
  /** The DID of its key, on `rsk`. @throws TypeError as `problem` says */
  didOn: (curve: Curve) => string
  /** What is wrong with its key, without showing it; undefined for a good one. */
  problem: string | undefined
}

const ownSigners = new WeakMap<object, OwnSigner>()

/**
 * A fast ES256K signer for `serviceSigner`, good for did-jwt as well.
 *
 * @param privateKey - 32 bytes, or 64 hexadecimal digits with or without `0x`. For anything else `setupDidAuth` throws
 * ERR_CONFIG, together with the other problems of a configuration, and the signer itself rejects with a TypeError
 */
export function es256kSigner(privateKey: string | Uint8Array): (data: string | Uint8Array) => Promise<string> {
  const { key, problem } = readPrivateKey(privateKey)
  const goodKey = (): Uint8Array => {
    if (key === undefined) throw new TypeError(problem)
    return key
  }
  const sign: LocalSigner = (curve, data) => curve.sign(curve.sha256(data), goodKey()).signature
  const signer = async (data: string | Uint8Array): Promise<string> =>
    Buffer.from(sign(await loadCurve(), data)).toString('base64url')
  ownSigners.set(signer, { sign, didOn: (curve) => didOfKey(curve, goodKey(), DEFAULT_NETWORK), problem })
  return signer
}

/** A signer that {@link es256kSigner} made; undefined for any other, which may be remote, slow, or change its key. */
export function ownSignerOf(signer: unknown): OwnSigner | undefined {
  return typeof signer === 'function' ? ownSigners.get(signer) : undefined
}

/**
 * The DID of a private key.
 *
 * @param privateKey - as for {@link es256kSigner}
 * @param network - network of the DID, default `rsk`; empty for Ethereum main net
 * @returns `did:ethr:<network>:<address in lower case>`
 * @throws TypeError when it is not a private key of secp256k1; the message does not show it
 */
export async function didOfPrivateKey(
  privateKey: string | Uint8Array,
  network: string = DEFAULT_NETWORK
): Promise<string> {
  const { key, problem } = readPrivateKey(privateKey)
  if (key === undefined) throw new TypeError(problem)
  return didOfKey(await loadCurve(), key, network)
}

function didOfKey(curve: Curve, key: Uint8Array, network: string): string {
  const publicKey = curve.publicKeyOf(key)
  if (publicKey === undefined) throw new TypeError(OUT_OF_RANGE)
  return ['did:ethr', network, addressOfPublicKey(curve, publicKey)].filter((part) => part !== '').join(':')
}

/**
 * Whether a value is a private key that {@link es256kSigner} accepts: 32 bytes, or 64 hexadecimal digits with or
 * without `0x`, in the range of secp256k1.
 *
 * @example
 * if (!isPrivateKey(process.env.PRIVATE_KEY)) throw new Error('PRIVATE_KEY: give 64 hex digits')
 */
export function isPrivateKey(value: unknown): value is string | Uint8Array {
  return readPrivateKey(value).key !== undefined
}

function readPrivateKey(
  privateKey: unknown
): { key: Uint8Array; problem: undefined } | { key: undefined; problem: string } {
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

/** Loaded with the first token, because its import takes as long as ours. */
const didJwt = lazy(() => import('did-jwt'))

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
