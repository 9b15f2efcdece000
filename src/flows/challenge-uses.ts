import { DidAuthError } from '../errors.js'
import type { ChallengeFlow, ChallengeUse } from '../ports.js'
import { USES_OUTLIVE_WINDOW_SECONDS } from '../protocol/challenge.js'
import type { Parts } from './parts.js'

/** How many challenges of a window a user consumed in one flow; always 0 with `replayProtection: 'window'`. */
export async function countUses(
  { settings, store }: Pick<Parts, 'settings' | 'store'>,
  did: string,
  window: number,
  flow: ChallengeFlow
): Promise<number> {
  if (!settings.singleUse) return 0
  return (await store.countChallengeUses({ service: settings.serviceUrl, did, window }))[flow]
}

/** The use of a challenge whose answer was good. */
export type VerifiedUse = Pick<ChallengeUse, 'flow' | 'window' | 'useCount' | 'consumesBoth'>

/**
 * Consumes the challenge that was answered, so that one signature opens one session.
 * @throws DidAuthError ERR_CHALLENGE_USED when another request with it was faster, ERR_CHALLENGE_EXPIRED, ERR_BUSY,
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

/** Consumes a use, also with `replayProtection: 'window'`. @throws DidAuthError as {@link consumeChallenge} */
export async function consumeUse(
  { settings, store, clock }: Pick<Parts, 'settings' | 'store' | 'clock'>,
  use: Omit<ChallengeUse, 'service' | 'nowSeconds'>
): Promise<void> {
  const { expiresAtSeconds } = use
  const nowSeconds = clock.nowSeconds()
  // The window may have ended since the signature was verified: the challenge is unused.
  if (nowSeconds >= expiresAtSeconds) throw new DidAuthError('ERR_CHALLENGE_EXPIRED')
  const outcome = await store.consumeChallenge({ service: settings.serviceUrl, ...use, nowSeconds })
  if (outcome === 'taken') throw new DidAuthError('ERR_CHALLENGE_USED')
  if (outcome === 'full') {
    const retryAfterSeconds = expiresAtSeconds + USES_OUTLIVE_WINDOW_SECONDS - nowSeconds
    throw new DidAuthError('ERR_BUSY', { retryAfterSeconds })
  }
}
