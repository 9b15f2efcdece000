import { challengeSecondsLeft, challengeWindow, computeChallenge } from '../protocol/challenge.js'
import { canonicalDid } from '../protocol/did.js'
import { signJwt } from '../protocol/jwt.js'
import { selectiveDisclosureRequest, signUpUrl } from '../protocol/selective-disclosure.js'
import type { ChallengeFlow } from '../ports.js'
import type { Parts } from './parts.js'

/** A challenge for one DID, and what a service that asks for data at sign up adds. */
export interface ChallengeAnswer {
  challenge: string
  /** Selective disclosure request, a signed JWT. Only at sign up, and only when something is required. */
  sdr?: string
  /** Seconds that the challenge stays valid. */
  expiresInSeconds: number
}

type ChallengeParts = Pick<Parts, 'settings' | 'clock' | 'curve' | 'store'>

/**
 * Gives the challenge for a login. Nothing is stored.
 *
 * @param did - as received: its exact spelling is part of the challenge
 * @throws DidAuthError ERR_STORE
 */
export async function requestLoginChallenge(parts: ChallengeParts, did: string): Promise<ChallengeAnswer> {
  return requestChallenge(parts, did, 'logIn', parts.clock.nowSeconds())
}

/**
 * Gives the challenge for a sign up, with a selective disclosure request when the service requires something.
 *
 * @param did - as received: its exact spelling is part of the challenge
 * @param mountPath - where the routes are mounted in the application
 * @throws DidAuthError ERR_STORE, ERR_SIGNER
 */
export async function requestSignUpChallenge(
  parts: ChallengeParts & Pick<Parts, 'serviceKey'>,
  did: string,
  mountPath: string
): Promise<ChallengeAnswer> {
  const { settings, serviceKey } = parts
  const nowSeconds = parts.clock.nowSeconds()
  const answer = await requestChallenge(parts, did, 'signUp', nowSeconds)
  const { required } = settings
  if (required.credentials.length === 0 && required.claims.length === 0) return answer
  const sdr = selectiveDisclosureRequest({
    serviceDid: settings.serviceDid,
    serviceUrl: settings.serviceUrl,
    userDid: did,
    replyUrl: signUpUrl(settings.serviceUrl, mountPath, settings.paths.signup),
    required,
    nowSeconds,
    expiresAtSeconds: nowSeconds + answer.expiresInSeconds
  })
  return { ...answer, sdr: await signJwt(sdr, (data) => serviceKey.sign(data)) }
}

async function requestChallenge(
  parts: ChallengeParts,
  did: string,
  flow: ChallengeFlow,
  nowSeconds: number
): Promise<ChallengeAnswer> {
  const { settings, curve } = parts
  const window = challengeWindow(nowSeconds, settings.challengeWindowSeconds)
  const useCount = await countUses(parts, did, window, flow)
  return {
    challenge: computeChallenge(curve, { did, secret: settings.challengeSecret, window, useCount }),
    expiresInSeconds: challengeSecondsLeft(nowSeconds, settings.challengeWindowSeconds)
  }
}

/** How many challenges of a window a user spent in one flow; always 0 where replay is only bounded by the window. */
export async function countUses(
  parts: Pick<Parts, 'settings' | 'store'>,
  did: string,
  window: number,
  flow: ChallengeFlow
): Promise<number> {
  const { settings, store } = parts
  if (!settings.singleUse) return 0
  const uses = await store.countChallengeUses({ service: settings.serviceUrl, did: canonicalDid(did), window })
  return uses[flow]
}
