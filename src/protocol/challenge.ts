import type { DidAuthErrorCode } from '../errors.js'
import type { Curve } from './curve.js'
import { recoverPersonalSigner, type RecoverableSignature } from './personal-sign.js'

/** Values that a challenge is computed from. */
export interface ChallengeInput {
  /** The user's DID exactly as received. */
  did: string
  secret: string
  /** Number of the window, see {@link challengeWindow}. */
  window: number
  /** Number of signatures of this DID that were used up in this window. */
  useCount: number
}

/**
 * The challenge that a DID has to sign: 64 hexadecimal characters without `0x`. It is not stored, but computed again
 * when the signed response arrives.
 * @see specification, table "Challenge": keccak256 of DID, secret and window, joined with `-`. The first challenge of a
 * window is exactly that; after each use the count of uses is appended, so that a captured signature opens nothing.
 */
export function computeChallenge(curve: Pick<Curve, 'keccak256Hex'>, input: ChallengeInput): string {
  const first = `${input.did}-${input.secret}-${String(input.window)}`
  return curve.keccak256Hex(input.useCount === 0 ? first : `${first}-${String(input.useCount)}`)
}

/**
 * Seconds for which the uses of a window are remembered after its end. Clocks of instances differ and are set back: to
 * one that is behind, the window continues, and a used signature must stay used.
 */
export const USES_OUTLIVE_WINDOW_SECONDS = 60

/** Returns the number of the window that contains a moment. Windows have 1 s or more; moments are Unix seconds. */
export function challengeWindow(nowSeconds: number, windowSeconds: number): number {
  return Math.floor(nowSeconds / windowSeconds)
}

/**
 * Seconds that a challenge requested now stays valid.
 *
 * @param nowSeconds - whole seconds since the Unix epoch
 * @param windowSeconds - length of a window in seconds, at least 1
 * @returns 1 to `windowSeconds`, whole
 * @see specification, table "Challenge"
 */
export function challengeSecondsLeft(nowSeconds: number, windowSeconds: number): number {
  return Math.ceil(windowSeconds - (nowSeconds % windowSeconds))
}

/** Key recoveries that one request may cost, those that explain a refusal included. */
export const MAX_RECOVERIES = 24

export interface ChallengeResponse {
  /** The addresses that control the user's DID, lower case. */
  controllers: ReadonlySet<string>
  signature: RecoverableSignature
  /** The messages that are accepted for a challenge, the likeliest first. */
  messagesOver: (challenge: string) => string[]
}

/** The message and the signer that were recovered from a response's signature. */
export interface SignedMessage {
  /** The message that the controller of the DID signed; undefined when it is none of the accepted ones. */
  message: string | undefined
  /** The controller that signed it. */
  signer: string | undefined
  /** The addresses recovered over the messages that were tried, in their order, for the log. */
  recovered: string[]
}

/**
 * Finds the message that the controller of a DID signed over the challenge of the current window and use count.
 * @see specification, "Message to be signed": rebuild, recover, compare the address
 */
export function findSignedMessage(
  curve: Pick<Curve, 'keccak256' | 'keccak256Hex' | 'recover'>,
  response: ChallengeResponse,
  expected: ChallengeInput
): SignedMessage {
  const messages = response.messagesOver(computeChallenge(curve, expected))
  return search(curve, response, messages.slice(0, MAX_RECOVERIES))
}

/**
 * Returns why a response is refused in which {@link findSignedMessage} found nothing, so that a client can retry by
 * itself. It tries challenges used before, the newest first, and of the window just ended the last challenge, then the
 * first. The newest used one and the ended window have equal shares of the recoveries left of {@link MAX_RECOVERIES}.
 * @param previousUseCount - how many signatures of this DID were used up in the window just ended
 */
export function explainRefusal(
  curve: Pick<Curve, 'keccak256' | 'keccak256Hex' | 'recover'>,
  response: ChallengeResponse,
  expected: ChallengeInput,
  previousUseCount = 0
): DidAuthErrorCode {
  const messageCount = Math.min(MAX_RECOVERIES, response.messagesOver('').length)
  let left = MAX_RECOVERIES - messageCount
  const share = Math.min(messageCount, Math.floor(left / (expected.useCount > 0 ? 2 : 1)))
  for (const [input, code] of refusedChallenges(expected, previousUseCount)) {
    if (share === 0 || left < share) break
    left -= share
    const candidates = response.messagesOver(computeChallenge(curve, input)).slice(0, share)
    if (search(curve, response, candidates).message !== undefined) return code
  }
  return 'ERR_CHALLENGE'
}

function search(
  curve: Pick<Curve, 'keccak256' | 'keccak256Hex' | 'recover'>,
  { controllers, signature }: ChallengeResponse,
  messages: readonly string[]
): SignedMessage {
  const recovered: string[] = []
  for (const message of messages) {
    const signer = recoverPersonalSigner(curve, message, signature)
    if (signer !== undefined && controllers.has(signer)) return { message, signer, recovered }
    recovered.push(signer ?? 'none')
  }
  return { message: undefined, signer: undefined, recovered }
}

/** Generates the challenges that a refused signature may belong to, the likeliest first. */
function* refusedChallenges(
  expected: ChallengeInput,
  previousUseCount: number
): Generator<[ChallengeInput, DidAuthErrorCode], undefined> {
  const { window, useCount } = expected
  if (useCount > 0) yield [{ ...expected, useCount: useCount - 1 }, 'ERR_CHALLENGE_USED']
  for (const ended of new Set([previousUseCount, 0])) {
    yield [{ ...expected, window: window - 1, useCount: ended }, 'ERR_CHALLENGE_EXPIRED']
  }
  for (let used = useCount - 2; used >= 0; used -= 1) yield [{ ...expected, useCount: used }, 'ERR_CHALLENGE_USED']
}
