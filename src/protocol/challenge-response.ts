import { DidAuthError, type DidAuthErrorCode } from '../errors.js'
import { computeChallenge, type ChallengeInput } from './challenge.js'
import type { Curve } from './curve.js'
import { recoverPersonalSigner, type RecoverableSignature } from './personal-sign.js'

/** Key recoveries that one request may cost, the looks at why it failed included. */
export const MAX_RECOVERIES = 24

export interface ChallengeResponse {
  /** Address of the user's DID, lower case. */
  address: string
  signature: RecoverableSignature
  /** The messages that would be good over a challenge, the likeliest first. */
  messagesOver: (challenge: string) => string[]
}

/**
 * Verifies that the controller of a DID signed the challenge that is expected now.
 *
 * Only the current window and the current use count are accepted. One challenge used before and the first of the window
 * just ended are looked at to tell a client why it was refused, so that it can retry by itself. What is left of the
 * recoveries is shared equally between the two, so that neither takes the other's.
 *
 * @param expected - what the expected challenge is computed from
 * @returns the message that was signed
 * @throws DidAuthError ERR_CHALLENGE, ERR_CHALLENGE_USED, ERR_CHALLENGE_EXPIRED
 * @see specification, "Message to be signed": rebuild, recover, compare the address
 */
export function verifyChallengeResponse(
  curve: Pick<Curve, 'keccak256' | 'keccak256Hex' | 'recover'>,
  response: ChallengeResponse,
  expected: ChallengeInput
): string {
  const signedOf = (messages: string[]): string | undefined =>
    messages.find((message) => recoverPersonalSigner(curve, message, response.signature) === response.address)

  const messages = response.messagesOver(computeChallenge(curve, expected)).slice(0, MAX_RECOVERIES)
  const message = signedOf(messages)
  if (message !== undefined) return message

  const { useCount, window } = expected
  const refusals: [ChallengeInput, DidAuthErrorCode][] = [
    [{ ...expected, window: window - 1, useCount: 0 }, 'ERR_CHALLENGE_EXPIRED']
  ]
  if (useCount > 0) refusals.unshift([{ ...expected, useCount: useCount - 1 }, 'ERR_CHALLENGE_USED'])
  const share = Math.floor((MAX_RECOVERIES - messages.length) / refusals.length)
  const reason = refusals.find(([input]) => {
    const candidates = response.messagesOver(computeChallenge(curve, input))
    return signedOf(candidates.slice(0, share)) !== undefined
  })
  throw new DidAuthError(reason?.[1] ?? 'ERR_CHALLENGE')
}
