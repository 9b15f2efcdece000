import { Buffer } from 'node:buffer'
import { DidAuthError } from '../errors.js'
import { createLazy } from '../lazy.js'
import type { Curve, Deadline, Logger, ServiceKey, Signer } from '../ports.js'
import { addressOfPublicKey } from '../protocol/curve.js'
import { addressOfDid, isEthrDid } from '../protocol/did.js'
import { parseSignerOutput } from '../protocol/personal-sign.js'
import { ownTime } from '../current-request.js'
import { issueJwt, findLocalKey, signWith } from './es256k-signer.js'

const SIGNER_SECONDS = 10
const RETRY_AFTER_SECONDS = 5
// Not the form of a JWT, so that no signature over a probe can ever be one over a token.
const FIRST_PROBE = 'express-did-auth asks: which key is this?'
const SECOND_PROBE = 'express-did-auth asks again: which key is this?'

interface SignerParts {
  curve: Curve
  logger: Logger
  /** Called with the address of the new key after a change of keys: tokens of the former key are refused. */
  onKeyChange?: ((address: string) => void) | undefined
}

/**
 * The service's key behind a did-jwt signer, whose public key is learnt from signatures. One signature fits two keys.
 * The key of `serviceDid` decides; where neither is, a second signature does, with a warning, because the owner of a
 * DID may have changed. Each signature of a foreign signer is checked: a key store that changed its key must not hand
 * out tokens that no instance accepts.
 */
export function createServiceKey(parts: SignerParts, signer: Signer, serviceDid: string): ServiceKey {
  const ownKey = findLocalKey(signer)?.key
  let warnedOf: string | undefined
  let lastKey: Uint8Array | undefined

  const failed = (cause: unknown): DidAuthError =>
    new DidAuthError('ERR_SIGNER', { cause, retryAfterSeconds: RETRY_AFTER_SECONDS })

  const askSigner = async (data: string, deadline: Deadline): Promise<Uint8Array> => {
    const expired = (): Error => new Error(`the signer took longer than ${String(SIGNER_SECONDS)} s`)
    try {
      const output = await deadline.within(SIGNER_SECONDS, () => signer(data), expired)
      const signature = parseSignerOutput(output)
      if (signature !== undefined) return signature
      throw new TypeError('the signer returned no ES256K signature')
    } catch (cause) {
      throw failed(cause)
    }
  }

  const candidates = async (probe: string): Promise<Uint8Array[]> => {
    const signature = await askSigner(probe, ownTime)
    const hash = parts.curve.sha256(probe)
    return [0, 1].flatMap((recovery) => parts.curve.recover(hash, signature, recovery) ?? [])
  }

  const expectedAddress = (): string | undefined => {
    try {
      return isEthrDid(serviceDid) ? addressOfDid(serviceDid, parts.curve) : undefined
    } catch (cause) {
      throw failed(new Error('serviceDid has a public key that is not a point of the curve', { cause }))
    }
  }

  const learn = async (): Promise<Uint8Array> => {
    const keys = await candidates(FIRST_PROBE)
    const expected = expectedAddress()
    const own = keys.find((key) => addressOfPublicKey(parts.curve, key) === expected)
    if (own !== undefined) return own
    const others = await candidates(SECOND_PROBE)
    const key = keys.find((one) => others.some((other) => Buffer.compare(one, other) === 0))
    if (key === undefined) throw failed(new Error('the signer made two signatures with different keys'))
    const address = addressOfPublicKey(parts.curve, key)
    if (expected !== undefined && warnedOf !== address) {
      warnedOf = address
      parts.logger.warn({ event: 'signer-address', address, serviceDid }, 'serviceSigner is not the key of serviceDid')
    }
    return key
  }

  const noteChange = (key: Uint8Array): Uint8Array => {
    const isChanged = lastKey !== undefined && Buffer.compare(lastKey, key) !== 0
    lastKey = key
    if (isChanged) parts.onKeyChange?.(addressOfPublicKey(parts.curve, key))
    return key
  }

  const publicKey = createLazy(() => learn().then(noteChange))

  const sign = async (data: string, deadline: Deadline): Promise<Uint8Array> => {
    if (ownKey !== undefined) return signWith(parts.curve, ownKey, data)
    const known = publicKey()
    const key = await known
    const signature = await askSigner(data, deadline)
    if (parts.curve.verify(parts.curve.sha256(data), signature, key)) return signature
    // The signer has another key now, or returned an invalid signature: the next request learns which.
    publicKey.forget(known)
    throw failed(new Error('the signature does not fit the key that the signer had before'))
  }

  return { publicKey, issueJwt: (payload, deadline) => issueJwt(payload, (data) => sign(data, deadline)) }
}
