import { Buffer } from 'node:buffer'
import { DidAuthError, RETRY_AFTER_SECONDS } from '../errors.js'
import { createLazy } from '../lazy.js'
import type { Deadline, Logger, ServiceKey, Signer } from '../ports.js'
import { addressOfPublicKey, type Curve } from '../protocol/curve.js'
import { addressOfDid, ethrDid, isEthrDid } from '../protocol/did.js'
import { isInRange } from '../protocol/ecdsa-signature.js'
import { parseSignerOutput } from '../protocol/personal-sign.js'
import type { JsonObject } from '../protocol/json.js'
import { isBytes } from '../protocol/is-bytes.js'
import { noDeadline } from '../time.js'
import { REQUEST_SECONDS } from '../time-limits.js'
import { loadCurve } from './curve.js'

const PRIVATE_KEY = /^(?:0x)?[0-9a-fA-F]{64}$/
const DEFAULT_NETWORK = 'rsk'
const OUT_OF_RANGE = 'the private key is not in the range of secp256k1'

// Probes do not have the form of a JWT, so that the signature of a probe is never the signature of a token.
const FIRST_PROBE = 'express-did-auth asks: which key is this?'
const SECOND_PROBE = 'express-did-auth asks again: which key is this?'

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
function signWith(curve: Curve, key: Uint8Array, data: string | Uint8Array): Uint8Array {
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
  if (!isBytes(key) || key.length !== 32) {
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
  sign: (data: string) => Promise<Uint8Array>,
  typ = 'JWT'
): Promise<string> {
  const { createJWT } = await didJwt()
  // did-jwt passes only text to signers, although their type allows bytes.
  const signer = async (data: string | Uint8Array): Promise<string> =>
    Buffer.from(await sign(String(data))).toString('base64url')
  // The type of did-jwt's header allows only `JWT`, although did-jwt signs any `typ`.
  return createJWT(payload, { issuer: payload.iss, signer }, { alg: 'ES256K', typ: typ as 'JWT' })
}

/** Creates the error for a remote signer that failed. */
export function createSignerError(cause: unknown): DidAuthError {
  return new DidAuthError('ERR_SIGNER', { cause, retryAfterSeconds: RETRY_AFTER_SECONDS })
}

/** Creates the cause for a remote signer that took too long. */
export function createLateError(): Error {
  return new Error(`the signer took longer than ${String(REQUEST_SECONDS)} s`)
}

interface SignerParts {
  curve: Curve
  logger: Logger
  /** Called with the address of the new key after a change of the key. Tokens of the former key are then refused. */
  onKeyChange?: ((address: string) => void) | undefined
}

/**
 * Creates the service's key from a did-jwt signer. The public key is recovered from a signature, which fits two keys.
 * If one of them is the key of `serviceDid`, it is used. Otherwise a second signature decides, with a warning: the
 * owner of the DID may have changed. Every signature of a remote signer is verified, because a key store that has
 * changed its key must not issue tokens that no instance accepts.
 */
export function createServiceKey(parts: SignerParts, signer: Signer, serviceDid: string): ServiceKey {
  const ownKey = findLocalKey(signer)?.key
  let warnedAddress: string | undefined
  let lastKey: Uint8Array | undefined

  const askSigner = async (data: string, deadline: Deadline): Promise<Uint8Array> => {
    try {
      const output = await deadline.within(REQUEST_SECONDS, () => signer(data), createLateError)
      const signature = parseSignerOutput(output)
      if (signature !== undefined) return signature
      throw new TypeError('the signer returned no ES256K signature')
    } catch (cause) {
      throw createSignerError(cause)
    }
  }

  const recoverKeys = async (probe: string): Promise<Uint8Array[]> => {
    const signature = await askSigner(probe, noDeadline)
    const hash = parts.curve.sha256(probe)
    return [0, 1].flatMap((recovery) => parts.curve.recover(hash, signature, recovery) ?? [])
  }

  const expectedAddress = (): string | undefined => {
    try {
      return isEthrDid(serviceDid) ? addressOfDid(serviceDid, parts.curve) : undefined
    } catch (cause) {
      throw createSignerError(new Error('serviceDid has a public key that is not a point of the curve', { cause }))
    }
  }

  const learnKey = async (): Promise<Uint8Array> => {
    const firstKeys = await recoverKeys(FIRST_PROBE)
    const expected = expectedAddress()
    const expectedKey = firstKeys.find((key) => addressOfPublicKey(parts.curve, key) === expected)
    if (expectedKey !== undefined) return expectedKey
    const secondKeys = await recoverKeys(SECOND_PROBE)
    const commonKey = firstKeys.find((first) => secondKeys.some((second) => Buffer.compare(first, second) === 0))
    if (commonKey === undefined)
      throw createSignerError(new Error('the signer made two signatures with different keys'))
    const address = addressOfPublicKey(parts.curve, commonKey)
    if (expected !== undefined && warnedAddress !== address) {
      warnedAddress = address
      parts.logger.warn({ event: 'signer-address', address, serviceDid }, 'serviceSigner is not the key of serviceDid')
    }
    return commonKey
  }

  const reportChange = (key: Uint8Array): Uint8Array => {
    const isChanged = lastKey !== undefined && Buffer.compare(lastKey, key) !== 0
    lastKey = key
    if (isChanged) parts.onKeyChange?.(addressOfPublicKey(parts.curve, key))
    return key
  }

  const publicKey = createLazy(() => learnKey().then(reportChange))

  const sign = async (data: string, deadline: Deadline): Promise<Uint8Array> => {
    if (ownKey !== undefined) return signWith(parts.curve, ownKey, data)
    const cachedKey = publicKey()
    // A call to the signer never settles in Workers if the client whose request started it disconnects.
    const key = await deadline.within(
      REQUEST_SECONDS,
      () => cachedKey,
      () => {
        publicKey.forget(cachedKey)
        return createSignerError(createLateError())
      }
    )
    const signature = await askSigner(data, deadline)
    if (parts.curve.verify(parts.curve.sha256(data), signature, key)) return signature
    // The signer has changed its key or returned an invalid signature. The next request learns the key again.
    publicKey.forget(cachedKey)
    throw createSignerError(new Error("the signature does not match the signer's previous key"))
  }

  return { publicKey, issueJwt: (payload, deadline, typ) => issueJwt(payload, (data) => sign(data, deadline), typ) }
}
