import { Buffer } from 'node:buffer'
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { SiweSettings } from '../config/settings.js'
import { DidAuthError } from '../errors.js'
import { consumeOnce } from './challenge-uses.js'
import type { Parts } from './parts.js'

const SLOT_SECONDS = 10
const RANDOM_BYTES = 16
/** Slot (8), 16 random bytes (32), and 12 bytes of their HMAC. */
const NONCE = /^[0-9a-f]{64}$/
const SIGNED_LENGTH = 40

type NonceSettings = Pick<SiweSettings, 'nonceSeconds' | 'nonceKey'>

/** A nonce of this service, its slot of 10 s, and its expiry in seconds since the Unix epoch. */
export type KnownNonce = { nonce: string; slot: number; expiresAtSeconds: number }

/** Issues a nonce of 64 hexadecimal digits, which itself proves its issuer and its age. It costs no memory. */
export function issueNonce(
  { random, clock }: Pick<Parts, 'random' | 'clock'>,
  siwe: NonceSettings
): { nonce: string; expiresInSeconds: number } {
  const nowSeconds = clock.nowSeconds()
  const slot = Math.floor(nowSeconds / SLOT_SECONDS)
  const drawn = Buffer.from(random.id(RANDOM_BYTES), 'base64url').toString('hex')
  const signed = slot.toString(16).padStart(8, '0') + drawn
  return { nonce: signed + seal(siwe, signed), expiresInSeconds: computeEnd(slot, siwe) - nowSeconds }
}

/** Verifies a nonce; returns its parts. @throws DidAuthError ERR_CHALLENGE if it is foreign, ERR_CHALLENGE_EXPIRED */
export function verifyNonce({ clock }: Pick<Parts, 'clock'>, siwe: NonceSettings, nonce: string): KnownNonce {
  const signed = nonce.slice(0, SIGNED_LENGTH)
  const isOurs = NONCE.test(nonce) && timingSafeEqual(Buffer.from(nonce), Buffer.from(signed + seal(siwe, signed)))
  if (!isOurs) {
    throw new DidAuthError('ERR_CHALLENGE', { reason: { check: 'nonce', expected: 'a nonce of this service' } })
  }
  const slot = Number.parseInt(nonce.slice(0, 8), 16)
  const expiresAtSeconds = computeEnd(slot, siwe)
  if (clock.nowSeconds() >= expiresAtSeconds) throw new DidAuthError('ERR_CHALLENGE_EXPIRED')
  return { nonce, slot, expiresAtSeconds }
}

/** @throws DidAuthError as `consumeOnce` */
export function consumeNonce(parts: Pick<Parts, 'settings' | 'store' | 'clock'>, known: KnownNonce): Promise<void> {
  return consumeOnce(parts, `siwe:${known.nonce}`, known)
}

function computeEnd(slot: number, { nonceSeconds }: NonceSettings): number {
  return (slot + 1) * SLOT_SECONDS + nonceSeconds
}

/** Computes 24 hexadecimal digits, which only this service can. */
function seal({ nonceKey }: NonceSettings, signed: string): string {
  return createHmac('sha256', nonceKey).update(signed).digest('hex').slice(0, 24)
}
