import { Buffer } from 'node:buffer'
import { DidAuthError } from '../errors.js'
import type { Curve, Deadline, Logger, ServiceKey, Signer } from '../ports.js'
import { addressOfPublicKey } from '../protocol/curve.js'
import { addressOfDid, isEthrDid } from '../protocol/did.js'
import { parseSignerOutput } from '../protocol/jwt.js'

const SIGNER_SECONDS = 10
const RETRY_AFTER_SECONDS = 5
// Not the form of a JWT, so that no signature over a probe can ever be one over a token.
const PROBES = ['express-did-auth asks: which key is this?', 'express-did-auth asks again: which key is this?']

interface SignerParts {
  curve: Curve
  deadline: Deadline
  logger: Logger
}

/**
 * The service's key behind a did-jwt signer, whose public key is learnt from signatures.
 *
 * One signature fits two keys. The key of `serviceDid` decides; where neither is, a second signature does, and a warning
 * is given, because the owner of a DID may have changed.
 */
export function signerServiceKey(parts: SignerParts, signer: Signer, serviceDid: string): ServiceKey {
  let learning: Promise<Uint8Array> | undefined

  const sign = async (data: string): Promise<Uint8Array> => {
    const expired = (): Error => new Error(`the signer took longer than ${String(SIGNER_SECONDS)} s`)
    let output: unknown
    try {
      output = await parts.deadline.within(SIGNER_SECONDS, () => signer(data), expired)
    } catch (cause) {
      throw new DidAuthError('ERR_SIGNER', { cause, retryAfterSeconds: RETRY_AFTER_SECONDS })
    }
    const signature = parseSignerOutput(output)
    if (signature !== undefined) return signature
    const cause = new TypeError('the signer returned no ES256K signature')
    throw new DidAuthError('ERR_SIGNER', { cause, retryAfterSeconds: RETRY_AFTER_SECONDS })
  }

  const candidates = async (probe: string): Promise<Uint8Array[]> => {
    const signature = await sign(probe)
    const hash = parts.curve.sha256(probe)
    return [0, 1].flatMap((recovery) => parts.curve.recover(hash, signature, recovery) ?? [])
  }

  const learn = async (): Promise<Uint8Array> => {
    const [first, second] = PROBES as [string, string]
    const keys = await candidates(first)
    const expected = isEthrDid(serviceDid) ? addressOfDid(serviceDid) : undefined
    const own = keys.find((key) => addressOfPublicKey(parts.curve, key) === expected)
    if (own !== undefined) return own
    const others = await candidates(second)
    const key = keys.find((one) => others.some((other) => Buffer.compare(one, other) === 0))
    if (key === undefined) throw new DidAuthError('ERR_SIGNER', { retryAfterSeconds: RETRY_AFTER_SECONDS })
    if (expected !== undefined) {
      const address = addressOfPublicKey(parts.curve, key)
      parts.logger.warn({ event: 'signer-address', address, serviceDid }, 'serviceSigner is not the key of serviceDid')
    }
    return key
  }

  return {
    sign,
    publicKey() {
      learning ??= learn().catch((error: unknown) => {
        learning = undefined
        throw error
      })
      return learning
    }
  }
}
