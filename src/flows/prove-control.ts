import { DidAuthError } from '../errors.js'
import type { ChallengeFlow } from '../ports.js'
import { challengeWindow, USES_OUTLIVE_WINDOW_SECONDS } from '../protocol/challenge.js'
import { verifyChallengeResponse } from '../protocol/challenge-response.js'
import { addressOfDid, canonicalDid, chainIdOfDid } from '../protocol/did.js'
import { parseSignature } from '../protocol/personal-sign.js'
import type { Parts } from './parts.js'
import { countUses } from './request-challenge.js'

/** A signed answer to a challenge. */
export interface ControlClaim {
  /** The user's DID as received. */
  did: string
  /** What was received as `sig`; nothing is known of it yet. */
  sig: unknown
  flow: ChallengeFlow
  /** The messages that would be good for one domain, the likeliest first; as many for each domain. */
  messagesFor: (domain: string, challenge: string) => string[]
}

/** A good answer whose challenge is still to be spent, see {@link spendChallenge}. */
export interface ProvedControl {
  did: string
  flow: ChallengeFlow
  window: number
  useCount: number
  /** Whether the same signature would be good at sign up and at login. */
  spendsBoth: boolean
}

/**
 * Proves that whoever sent `sig` controls a DID now. Changes nothing.
 *
 * @throws DidAuthError ERR_DID_UNSUPPORTED, ERR_SIGNATURE, ERR_CHALLENGE, ERR_CHALLENGE_EXPIRED, ERR_CHALLENGE_USED,
 * ERR_BUSY, ERR_STORE
 */
export async function proveControl(
  parts: Pick<Parts, 'settings' | 'clock' | 'curve' | 'store' | 'turns'>,
  claim: ControlClaim
): Promise<ProvedControl> {
  const { settings, curve } = parts
  const { did, flow } = claim
  const address = addressOfDid(did)
  const signature = parseSignature(claim.sig, chainIdOfDid(did))
  const window = challengeWindow(parts.clock.nowSeconds(), settings.challengeWindowSeconds)
  const useCount = await countUses(parts, did, window, flow)
  await parts.turns.take()
  const messagesOver = (challenge: string): string[] =>
    byForm(settings.loginDomains.map((domain) => claim.messagesFor(domain, challenge)))
  const message = verifyChallengeResponse(
    curve,
    { address, signature, messagesOver },
    { did, secret: settings.challengeSecret, window, useCount }
  )
  // Two lines are a login message, and a sign up message without credentials as well.
  return { did, flow, window, useCount, spendsBoth: message.split('\n').length === 2 }
}

/** The first form for every domain, then the second: a usual form for an unusual domain is likelier than the reverse. */
function byForm(messagesByDomain: string[][]): string[] {
  const [forms = []] = messagesByDomain
  return forms.flatMap((_, form) => messagesByDomain.flatMap((messages) => messages[form] ?? []))
}

/**
 * Spends the challenge that was answered, so that one signature opens one session.
 *
 * @throws DidAuthError ERR_CHALLENGE_USED when another request with it was faster, ERR_CHALLENGE_EXPIRED, ERR_BUSY,
 * ERR_STORE
 */
export async function spendChallenge(
  parts: Pick<Parts, 'settings' | 'clock' | 'store'>,
  proved: ProvedControl
): Promise<void> {
  const { settings, store } = parts
  if (!settings.singleUse) return
  const nowSeconds = parts.clock.nowSeconds()
  const expiresAtSeconds = Math.ceil((proved.window + 1) * settings.challengeWindowSeconds)
  // Its window may have ended since it was looked at: nobody used it.
  if (nowSeconds >= expiresAtSeconds) throw new DidAuthError('ERR_CHALLENGE_EXPIRED')
  const outcome = await store.useChallenge({
    ...proved,
    service: settings.serviceUrl,
    did: canonicalDid(proved.did),
    nowSeconds,
    expiresAtSeconds
  })
  if (outcome === 'taken') throw new DidAuthError('ERR_CHALLENGE_USED')
  if (outcome === 'full') {
    const retryAfterSeconds = expiresAtSeconds + USES_OUTLIVE_WINDOW_SECONDS - nowSeconds
    throw new DidAuthError('ERR_BUSY', { retryAfterSeconds })
  }
}
