import { Buffer } from 'node:buffer'
import { DidAuthError } from '../errors.js'
import { createLazy } from '../lazy.js'
import type { Curve, Deadline, Logger, ServiceKey, Signer } from '../ports.js'
import { addressOfPublicKey } from '../protocol/curve.js'
import { addressOfDid, isEthrDid } from '../protocol/did.js'
import { parseSignerOutput } from '../protocol/personal-sign.js'
import { noDeadline } from '../time.js'
import { issueJwt, findLocalKey, signWith } from './es256k-signer.js'

const SIGNER_SECONDS = 10
const RETRY_AFTER_SECONDS = 5
// Probes do not have the form of a JWT, so that the signature of a probe is never the signature of a token.
const FIRST_PROBE = 'express-did-auth asks: which key is this?'
const SECOND_PROBE = 'express-did-auth asks again: which key is this?'

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

  const createError = (cause: unknown): DidAuthError =>
    new DidAuthError('ERR_SIGNER', { cause, retryAfterSeconds: RETRY_AFTER_SECONDS })

  const askSigner = async (data: string, deadline: Deadline): Promise<Uint8Array> => {
    const expired = (): Error => new Error(`the signer took longer than ${String(SIGNER_SECONDS)} s`)
    try {
      const output = await deadline.within(SIGNER_SECONDS, () => signer(data), expired)
      const signature = parseSignerOutput(output)
      if (signature !== undefined) return signature
      throw new TypeError('the signer returned no ES256K signature')
    } catch (cause) {
      throw createError(cause)
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
      throw createError(new Error('serviceDid has a public key that is not a point of the curve', { cause }))
    }
  }

  const learnKey = async (): Promise<Uint8Array> => {
    const firstKeys = await recoverKeys(FIRST_PROBE)
    const expected = expectedAddress()
    const expectedKey = firstKeys.find((key) => addressOfPublicKey(parts.curve, key) === expected)
    if (expectedKey !== undefined) return expectedKey
    const secondKeys = await recoverKeys(SECOND_PROBE)
    const commonKey = firstKeys.find((first) => secondKeys.some((second) => Buffer.compare(first, second) === 0))
    if (commonKey === undefined) throw createError(new Error('the signer made two signatures with different keys'))
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
    const key = await cachedKey
    const signature = await askSigner(data, deadline)
    if (parts.curve.verify(parts.curve.sha256(data), signature, key)) return signature
    // The signer has changed its key or returned an invalid signature. The next request learns the key again.
    publicKey.forget(cachedKey)
    throw createError(new Error("the signature does not match the signer's previous key"))
  }

  return { publicKey, issueJwt: (payload, deadline) => issueJwt(payload, (data) => sign(data, deadline)) }
}
