import type { DidAuthErrorCode } from '../errors.js'
import { recoverPersonalSigner, type Curve, type RecoverableSignature } from './curve.js'

/** Values from which a challenge is computed. */
export interface ChallengeInput {
  /** The user's DID exactly as received. */
  did: string
  /** The option `challengeSecret`. */
  secret: string
  /** Number of the window, see {@link challengeWindow}. */
  window: number
  /** Number of challenges of this DID that were consumed in this window. */
  useCount: number
}

/**
 * Computes the challenge that a DID has to sign: 64 hexadecimal digits without `0x`. Challenges are not stored: the
 * challenge is computed again when the signed response arrives.
 *
 * It is keccak256 of DID, secret and window, joined with `-`. After the first use in a window, the use count is
 * appended, so that a captured signature opens no second session.
 * @see specification, table "Challenge"
 */
export function computeChallenge(curve: Pick<Curve, 'keccak256Hex'>, input: ChallengeInput): string {
  const first = `${input.did}-${input.secret}-${String(input.window)}`
  return curve.keccak256Hex(input.useCount === 0 ? first : `${first}-${String(input.useCount)}`)
}

/**
 * Seconds for which challenge uses are stored after the end of their window. For an instance whose clock is behind, the
 * window is still current, and a used signature must stay used.
 */
export const USES_OUTLIVE_WINDOW_SECONDS = 60

/** Returns the number of the window that contains a time, in Unix seconds. A window has at least 1 s. */
export function challengeWindow(nowSeconds: number, windowSeconds: number): number {
  return Math.floor(nowSeconds / windowSeconds)
}

/**
 * Computes how many seconds a challenge that is requested now stays valid.
 *
 * @param nowSeconds - whole seconds since the Unix epoch
 * @param windowSeconds - length of a window in seconds, at least 1
 * @returns 1 to `windowSeconds`, whole
 * @see specification, table "Challenge"
 */
export function challengeSecondsLeft(nowSeconds: number, windowSeconds: number): number {
  return Math.ceil(windowSeconds - (nowSeconds % windowSeconds))
}

/** Maximum number of key recoveries per request, including those that only explain a refusal. */
export const MAX_RECOVERIES = 24

/** A signed response to a challenge. */
export interface ChallengeResponse {
  /** Addresses that control the user's DID, lower case. */
  controllers: ReadonlySet<string>
  /** Signature over one of the accepted messages. */
  signature: RecoverableSignature
  /** Returns the accepted messages for a challenge, the likeliest first. */
  messagesOver: (challenge: string) => string[]
}

/** Result of searching for the signed message. */
export interface SignedMessage {
  /** Message that a controller of the DID signed. Undefined if none of the accepted messages was signed. */
  message: string | undefined
  /** Address of the controller that signed the message. */
  signer: string | undefined
  /** Addresses recovered over the other tried messages, in order, for the log. */
  recovered: string[]
}

/**
 * Finds the message that a controller of a DID signed over the challenge of the current window and use count.
 * @see specification, "Message to be signed": rebuild the message, recover the key, compare the address
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
 * Returns the reason for refusing a response after {@link findSignedMessage} found no message. A client retries
 * automatically if the challenge was valid before.
 *
 * It tries challenges that may have been signed instead: used ones, the newest first, and the last and the first
 * challenge of the previous window. The newest used challenge and the previous window get equal shares of the
 * recoveries that remain of {@link MAX_RECOVERIES}.
 * @param previousUseCount - number of challenges of this DID that were consumed in the previous window
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
  for (const endedCount of new Set([previousUseCount, 0])) {
    yield [{ ...expected, window: window - 1, useCount: endedCount }, 'ERR_CHALLENGE_EXPIRED']
  }
  for (let usedCount = useCount - 2; usedCount >= 0; usedCount -= 1) {
    yield [{ ...expected, useCount: usedCount }, 'ERR_CHALLENGE_USED']
  }
}
