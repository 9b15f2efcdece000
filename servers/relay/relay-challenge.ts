import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { canonicalDid } from 'express-did-auth'

const RANDOM_BYTES = 32
const SLOT_SECONDS = 10
/** Earlier slots whose challenges are still valid. */
const GOOD_SLOTS = 30
const FORM = /^[0-9a-f]{128}$/

/** Seconds that a challenge is good for at least. */
export const RELAY_CHALLENGE_SECONDS = GOOD_SLOTS * SLOT_SECONDS

/** A challenge of ours: the slot of 10 s of its issue, and when it expires, in seconds since the Unix epoch. */
export interface KnownChallenge {
  slot: number
  expiresAtSeconds: number
}

/**
 * A challenge that proves that we issued it, for which DID and when, so a request for one needs no memory.
 *
 * @returns 128 hexadecimal characters: the random bytes, then their HMAC-SHA256 with DID and time
 * @see specification, table "Challenge", row "Component B"
 */
export function issueRelayChallenge(secret: string, did: string, nowSeconds: number): string {
  const random = randomBytes(RANDOM_BYTES)
  return random.toString('hex') + seal(secret, random, did, Math.floor(nowSeconds / SLOT_SECONDS)).toString('hex')
}

/** Finds when it was issued. Undefined when it is not ours, is for another DID, or expired more than 5 minutes ago. */
export function findRelayChallenge(
  secret: string,
  did: string,
  nowSeconds: number,
  challenge: string
): KnownChallenge | undefined {
  if (!FORM.test(challenge)) return undefined
  const bytes = Buffer.from(challenge, 'hex')
  const random = bytes.subarray(0, RANDOM_BYTES)
  for (let age = 0; age <= 2 * GOOD_SLOTS; age += 1) {
    const slot = Math.floor(nowSeconds / SLOT_SECONDS) - age
    if (!timingSafeEqual(bytes.subarray(RANDOM_BYTES), seal(secret, random, did, slot))) continue
    return { slot, expiresAtSeconds: (slot + GOOD_SLOTS + 1) * SLOT_SECONDS }
  }
  return undefined
}

function seal(secret: string, random: Uint8Array, did: string, slot: number): Buffer {
  // Of a fixed length, so that no DID's last digits can be taken for the slot's first.
  const time = Buffer.alloc(8)
  time.writeBigUInt64BE(BigInt(slot))
  return createHmac('sha256', secret).update(random).update(canonicalDid(did)).update(time).digest()
}
