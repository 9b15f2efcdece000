import { DidAuthError } from '../errors.js'
import type { ChallengeFlow, Client, UserIdentity } from '../ports.js'
import { challengeWindow, USES_OUTLIVE_WINDOW_SECONDS } from '../protocol/challenge.js'
import { explainRefusal, findSignedMessage } from '../protocol/challenge-response.js'
import { assertNetwork, chainIdOfDid } from '../protocol/did.js'
import type { LoginDialect } from '../protocol/login-message.js'
import { parseSignature } from '../protocol/personal-sign.js'
import type { Parts } from './parts.js'
import { countUses } from './request-challenge.js'
import { userIdentity } from './user-identity.js'

/** A signed answer to a challenge. */
export interface ControlClaim {
  /** The user's DID as received. */
  did: string
  /** The received `sig`, not parsed yet. */
  sig: unknown
  client: Client
  flow: ChallengeFlow
  /** The messages that would be good for one domain and dialect, the likeliest first; as many for each. */
  messagesFor: (domain: string, challenge: string, dialect: LoginDialect) => string[]
}

/** A good answer whose challenge is still to be consumed, see {@link consumeVerifiedChallenge}. */
export interface VerifiedControl {
  did: string
  identity: UserIdentity
  flow: ChallengeFlow
  window: number
  useCount: number
  /** Whether the same signature would be good at sign up and at login. */
  consumesBoth: boolean
}

/**
 * Verifies that the sender of `sig` controls a DID now. Changes nothing.
 *
 * @throws DidAuthError ERR_DID_UNSUPPORTED, ERR_SIGNATURE, ERR_CHALLENGE, ERR_CHALLENGE_EXPIRED, ERR_CHALLENGE_USED,
 * ERR_BUSY, ERR_STORE
 */
export async function verifyControl(
  parts: Pick<Parts, 'settings' | 'clock' | 'curve' | 'store' | 'scheduler'>,
  claim: ControlClaim
): Promise<VerifiedControl> {
  const { settings, curve } = parts
  const { did, flow } = claim
  assertNetwork(did, settings.networks)
  const identity = userIdentity(curve, did)
  const signature = parseSignature(claim.sig, chainIdOfDid(did))
  const window = challengeWindow(parts.clock.nowSeconds(), settings.challengeWindowSeconds)
  const useCount = await countUses(parts, did, window, flow)
  await parts.scheduler.yield(claim.client)
  const messagesOver = (challenge: string): string[] =>
    byForm(
      settings.loginDialects.flatMap((dialect) =>
        settings.loginDomains.map((domain) => claim.messagesFor(domain, challenge, dialect))
      )
    )
  const response = { address: identity.address, signature, messagesOver }
  const expected = { did, secret: settings.challengeSecret, window, useCount }
  const { message, recovered } = findSignedMessage(curve, response, expected)
  if (message === undefined) {
    // Recoveries that only explain a refusal run in the background, after the logins that wait.
    const mayExplain = await parts.scheduler.yield(claim.client, 'background').then(
      () => true,
      () => false
    )
    const code = mayExplain ? explainRefusal(curve, response, expected) : 'ERR_CHALLENGE'
    throw code === 'ERR_CHALLENGE' ? refusedSigner(settings, recovered) : new DidAuthError(code)
  }
  // Two lines are a login message, and a sign up message without credentials as well.
  return { did, identity, flow, window, useCount, consumesBoth: message.split('\n').length === 2 }
}

/** The usual form of the message comes first for each domain, so that the first addresses belong to the domains in order. */
function refusedSigner(
  { loginDomains: acceptedDomains, loginDialects }: Parts['settings'],
  recovered: readonly string[]
): DidAuthError {
  const expected = 'the address of the DID, recovered over a message with an accepted domain and the current challenge'
  const recoveredAddresses = recovered.slice(0, acceptedDomains.length * loginDialects.length)
  const reason = { check: 'signer', expected, acceptedDomains, recoveredAddresses }
  return new DidAuthError('ERR_CHALLENGE', { reason })
}

/** The first form for every domain, then the second: a usual form for an unusual domain is likelier than the reverse. */
function byForm(messagesByDomain: string[][]): string[] {
  const [forms = []] = messagesByDomain
  return forms.flatMap((_, form) => messagesByDomain.flatMap((messages) => messages[form] ?? []))
}

/**
 * Consumes the challenge that was answered, so that one signature opens one session.
 *
 * @throws DidAuthError ERR_CHALLENGE_USED when another request with it was faster, ERR_CHALLENGE_EXPIRED, ERR_BUSY,
 * ERR_STORE
 */
export async function consumeVerifiedChallenge(
  parts: Pick<Parts, 'settings' | 'clock' | 'store'>,
  { identity, flow, window, useCount, consumesBoth }: VerifiedControl
): Promise<void> {
  const { settings, store } = parts
  if (!settings.singleUse) return
  const nowSeconds = parts.clock.nowSeconds()
  const expiresAtSeconds = Math.ceil((window + 1) * settings.challengeWindowSeconds)
  // The window may have ended since the signature was verified: the challenge is unused.
  if (nowSeconds >= expiresAtSeconds) throw new DidAuthError('ERR_CHALLENGE_EXPIRED')
  const outcome = await store.consumeChallenge({
    service: settings.serviceUrl,
    did: identity.canonicalDid,
    window,
    flow,
    useCount,
    consumesBoth,
    nowSeconds,
    expiresAtSeconds
  })
  if (outcome === 'taken') throw new DidAuthError('ERR_CHALLENGE_USED')
  if (outcome === 'full') {
    const retryAfterSeconds = expiresAtSeconds + USES_OUTLIVE_WINDOW_SECONDS - nowSeconds
    throw new DidAuthError('ERR_BUSY', { retryAfterSeconds })
  }
}
