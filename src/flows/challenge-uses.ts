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
export type VerifiedUse = Omit<ChallengeUse, 'service' | 'nowSeconds'>

interface UseParts {
  settings: Pick<Settings, 'serviceUrl'>
  store: Pick<ChallengeUseStore, 'consumeChallenge'>
  clock: Clock
}

/**
 * Consumes an answered challenge or nonce, so that one signature opens one session.
 * @throws DidAuthError ERR_CHALLENGE_USED if another request consumed it first, ERR_CHALLENGE_EXPIRED, ERR_BUSY,
 * ERR_STORE
 */
export async function consumeUse(parts: UseParts, use: VerifiedUse): Promise<void> {
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

/**
 * Returns the use of a challenge that contains its own expiry, such as a nonce. In the store it is the only use of its
 * own window. It is consumed also with `replayProtection: 'window'`.
 * @param name - name of the challenge, unique within the service
 * @param issued - the time slot of its issue, and its expiry in seconds since the Unix epoch
 */
export function createSingleUse(name: string, issued: { slot: number; expiresAtSeconds: number }): VerifiedUse {
  const { slot: window, expiresAtSeconds } = issued
  return { did: name, window, flow: 'logIn', useCount: 0, consumesBoth: false, expiresAtSeconds }
}

/** Consumes a challenge that contains its own expiry, such as a nonce. @throws DidAuthError as {@link consumeUse} */
export async function consumeOnce(
  parts: UseParts,
  name: string,
  issued: { slot: number; expiresAtSeconds: number }
): Promise<void> {
  await consumeUse(parts, createSingleUse(name, issued))
}

/** Length of the slots of names that their sender chose, in seconds. */
const NAME_SLOT_SECONDS = 900

/** Time for which a name is remembered after its expiry, in seconds: clocks of instances may differ. */
const NAME_EXTRA_SECONDS = 60

/**
 * Consumes a name that its sender chose, such as `jti`, also with `replayProtection: 'window'`. Two requests with one
 * name may have different expiries, and so be in neighbouring slots: each consumes its own slot before it reads the
 * other one, so that at most one of them succeeds.
 * @param exp - expiry of the name in seconds since the Unix epoch
 * @param maxSeconds - maximum distance of `exp` from now; with 60 s, less than half of a slot
 * @throws DidAuthError as {@link consumeUse}
 */
export async function consumeName(
  parts: UseParts & { store: ChallengeUseStore },
  name: string,
  { exp, maxSeconds }: { exp: number; maxSeconds: number }
): Promise<void> {
  const toSlot = (seconds: number): number => Math.floor(seconds / NAME_SLOT_SECONDS)
  const slot = toSlot(exp)
  await consumeOnce(parts, name, { slot, expiresAtSeconds: Math.ceil(exp) + NAME_EXTRA_SECONDS })
  const reach = maxSeconds + NAME_EXTRA_SECONDS
  const neighbour = [toSlot(exp - reach), toSlot(exp + reach)].find((other) => other !== slot)
  if (neighbour === undefined) return
  const { serviceUrl: service } = parts.settings
  const { logIn } = await parts.store.countChallengeUses({ service, did: name, window: neighbour })
  if (logIn > 0) throw new DidAuthError('ERR_CHALLENGE_USED')
}
