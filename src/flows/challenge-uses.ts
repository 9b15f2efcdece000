import type { Settings } from '../config/settings.js'
import { DidAuthError } from '../errors.js'
import type { ChallengeFlow, ChallengeUse, ChallengeUseStore, Clock } from '../ports.js'
import { USES_OUTLIVE_WINDOW_SECONDS } from '../protocol/challenge.js'
import type { Parts } from './parts.js'

/** Returns the number of challenges that a user consumed in a window and flow; 0 with `replayProtection: 'window'`. */
export async function countUses(
  { settings, store }: Pick<Parts, 'settings' | 'store'>,
  did: string,
  window: number,
  flow: ChallengeFlow
): Promise<number> {
  if (!settings.singleUse) return 0
  return (await store.countChallengeUses({ service: settings.serviceUrl, did, window }))[flow]
}

/** The use of a challenge after its answer was verified. */
export type VerifiedUse = Pick<ChallengeUse, 'flow' | 'window' | 'useCount' | 'consumesBoth'>

/**
 * Consumes an answered challenge, so that one signature opens one session.
 * @throws DidAuthError ERR_CHALLENGE_USED if another request consumed it first, ERR_CHALLENGE_EXPIRED, ERR_BUSY,
 * ERR_STORE
 */
export async function consumeChallenge(
  parts: Pick<Parts, 'settings' | 'store' | 'clock'>,
  did: string,
  use: VerifiedUse
): Promise<void> {
  if (!parts.settings.singleUse) return
  const expiresAtSeconds = Math.ceil((use.window + 1) * parts.settings.challengeWindowSeconds)
  await consumeUse(parts, { did, ...use, expiresAtSeconds })
}

interface UseParts {
  settings: Pick<Settings, 'serviceUrl'>
  store: Pick<ChallengeUseStore, 'consumeChallenge'>
  clock: Clock
}

/**
 * Consumes a challenge that contains its own expiry, such as a nonce, also with `replayProtection: 'window'`. In the
 * store it is the only use of its own window.
 * @param name - name of the challenge, unique within the service
 * @param issued - the time slot of its issue, and its expiry in seconds since the Unix epoch
 * @throws DidAuthError as {@link consumeChallenge}
 */
export async function consumeOnce(
  parts: UseParts,
  name: string,
  { slot, expiresAtSeconds }: { slot: number; expiresAtSeconds: number }
): Promise<void> {
  const use = { did: name, window: slot, flow: 'logIn', useCount: 0, consumesBoth: false } as const
  await consumeUse(parts, { ...use, expiresAtSeconds })
}

async function consumeUse(parts: UseParts, use: Omit<ChallengeUse, 'service' | 'nowSeconds'>): Promise<void> {
  const { expiresAtSeconds } = use
  const nowSeconds = parts.clock.nowSeconds()
  // The window may have ended after the signature was verified. The challenge is then expired and not used.
  if (nowSeconds >= expiresAtSeconds) throw new DidAuthError('ERR_CHALLENGE_EXPIRED')
  const outcome = await parts.store.consumeChallenge({ service: parts.settings.serviceUrl, ...use, nowSeconds })
  if (outcome === 'taken') throw new DidAuthError('ERR_CHALLENGE_USED')
  if (outcome === 'full') {
    const retryAfterSeconds = expiresAtSeconds + USES_OUTLIVE_WINDOW_SECONDS - nowSeconds
    throw new DidAuthError('ERR_BUSY', { retryAfterSeconds })
  }
}
