import { challengeSecondsLeft, challengeWindow, computeChallenge } from '../protocol/challenge.js'
import { canonicalDid } from '../protocol/did.js'
import { createRouteUrl } from '../protocol/parse-url.js'
import type { ChallengeFlow, Client } from '../ports.js'
import type { Parts } from './parts.js'
import { countUses } from './challenge-uses.js'
import { assertKeyDid } from './user.js'

/** A challenge for one DID, with a selective disclosure request if the service requests data at sign up. */
export interface ChallengeAnswer {
  challenge: string
  /** Selective disclosure request, a signed JWT. Present only at sign up, if the service requests data. */
  sdr?: string
  /** Seconds that the challenge stays valid. */
  expiresInSeconds: number
}

type ChallengeParts = Pick<Parts, 'settings' | 'clock' | 'curve' | 'store'>

/** Computes the challenge for a login with a DID as received. @throws DidAuthError ERR_DID_UNSUPPORTED, ERR_STORE */
export async function requestLoginChallenge(parts: ChallengeParts, did: string): Promise<ChallengeAnswer> {
  return requestChallenge(parts, did, 'logIn', parts.clock.nowSeconds())
}

/**
 * Computes the challenge for a sign up, with a selective disclosure request if the service requests data. Anyone may
 * request one, so it is signed only once per DID and window, and after waiting logins.
 * @throws DidAuthError ERR_DID_UNSUPPORTED, ERR_STORE, ERR_SIGNER, ERR_BUSY
 * @see specification, "Selective disclosure request (sdr)"
 */
export async function requestSignUpChallenge(
  parts: ChallengeParts & Pick<Parts, 'serviceKey' | 'deadline' | 'scheduler' | 'disclosureRequests'>,
  did: string,
  { mountPath, client }: { mountPath: string; client: Client }
): Promise<ChallengeAnswer> {
  const { settings } = parts
  const nowSeconds = parts.clock.nowSeconds()
  const answer = await requestChallenge(parts, did, 'signUp', nowSeconds)
  const { required } = settings
  if (required.credentials.length === 0 && required.claims.length === 0) return answer
  const expiresAtSeconds = nowSeconds + answer.expiresInSeconds
  const key = `${String(expiresAtSeconds)} ${mountPath} ${did}`
  const sdr = await parts.disclosureRequests.signOnce(key, client, nowSeconds, async () => {
    // Other clients may share this signature, so it must continue if this client disconnects.
    await parts.scheduler.yield({ network: client.network, isGone: () => false }, 'background')
    const { serviceDid, serviceUrl, paths } = settings
    const replyUrl = createRouteUrl(serviceUrl, mountPath, paths.signup)
    const request = {
      // A JWT with a `type` is refused as an access token.
      type: 'sdr',
      issuer: serviceDid,
      subject: did,
      ...(replyUrl !== undefined && { replyUrl }),
      claims: required.claims.map((claim) => ({ ...claim })),
      credentials: [...required.credentials],
      iss: serviceDid,
      aud: serviceUrl,
      iat: nowSeconds,
      exp: expiresAtSeconds
    }
    return parts.serviceKey.issueJwt(request, parts.deadline)
  })
  return { ...answer, sdr }
}

async function requestChallenge(
  parts: ChallengeParts,
  did: string,
  flow: ChallengeFlow,
  nowSeconds: number
): Promise<ChallengeAnswer> {
  const { settings, curve } = parts
  assertKeyDid(settings, did)
  const window = challengeWindow(nowSeconds, settings.challengeWindowSeconds)
  const useCount = await countUses(parts, canonicalDid(did), window, flow)
  return {
    challenge: computeChallenge(curve, { did, secret: settings.challengeSecret, window, useCount }),
    expiresInSeconds: challengeSecondsLeft(nowSeconds, settings.challengeWindowSeconds)
  }
}
