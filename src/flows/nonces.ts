import { Buffer } from 'node:buffer'
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { NonceSettings } from '../config/settings.js'
import { DidAuthError } from '../errors.js'
import { consumeUse, createSingleUse, type VerifiedUse } from './challenge-uses.js'
import type { Parts } from './parts.js'

const SLOT_SECONDS = 10
const RANDOM_BYTES = 16
/** Hexadecimal digits of the slot (8), of 16 random bytes (32), and of 12 bytes of their HMAC (24). */
const NONCE = /^[0-9a-f]{64}$/
const SIGNED_LENGTH = 40

/** A verified nonce of this service, its slot of 10 s, and its expiry in seconds since the Unix epoch. */
export type VerifiedNonce = { nonce: string; slot: number; expiresAtSeconds: number }

/** Issues a nonce of 64 hexadecimal digits. Its HMAC proves issuer and age, so that it is not stored. */
export function issueNonce(
  { random, clock }: Pick<Parts, 'random' | 'clock'>,
  settings: NonceSettings
): { nonce: string; expiresInSeconds: number } {
  const nowSeconds = clock.nowSeconds()
  const slot = Math.floor(nowSeconds / SLOT_SECONDS)
  const randomHex = Buffer.from(random.id(RANDOM_BYTES), 'base64url').toString('hex')
  const signed = slot.toString(16).padStart(8, '0') + randomHex
  return { nonce: signed + seal(settings, signed), expiresInSeconds: computeEnd(slot, settings) - nowSeconds }
}

/**
 * Verifies a nonce by its HMAC.
 * @throws DidAuthError ERR_CHALLENGE if this service did not issue it, ERR_CHALLENGE_EXPIRED
 */
export function verifyNonce({ clock }: Pick<Parts, 'clock'>, settings: NonceSettings, nonce: string): VerifiedNonce {
  const signed = nonce.slice(0, SIGNED_LENGTH)
  const isIssued =
    NONCE.test(nonce) && timingSafeEqual(Buffer.from(nonce), Buffer.from(signed + seal(settings, signed)))
  if (!isIssued) {
    throw new DidAuthError('ERR_CHALLENGE', { reason: { check: 'nonce', expected: 'a nonce of this service' } })
  }
  const slot = Number.parseInt(nonce.slice(0, 8), 16)
  const expiresAtSeconds = computeEnd(slot, settings)
  if (clock.nowSeconds() >= expiresAtSeconds) throw new DidAuthError('ERR_CHALLENGE_EXPIRED')
  return { nonce, slot, expiresAtSeconds }
}

/** Returns the use of a verified nonce of EIP-4361. */
export function createNonceUse(nonce: VerifiedNonce): VerifiedUse {
  return createSingleUse(`siwe:${nonce.nonce}`, nonce)
}

/** Consumes a verified nonce of EIP-4361. @throws DidAuthError as `consumeUse` */
export function consumeNonce(parts: Pick<Parts, 'settings' | 'store' | 'clock'>, nonce: VerifiedNonce): Promise<void> {
  return consumeUse(parts, createNonceUse(nonce))
}

function computeEnd(slot: number, { nonceSeconds }: NonceSettings): number {
  return (slot + 1) * SLOT_SECONDS + nonceSeconds
}

/** Computes the HMAC of a nonce, cut to 24 hexadecimal digits. Only this service has the key. */
function seal({ nonceKey }: NonceSettings, signed: string): string {
  return createHmac('sha256', nonceKey).update(signed).digest('hex').slice(0, 24)
}
