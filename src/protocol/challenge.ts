import type { Curve } from './curve.js'

/** What a challenge is computed from. */
export interface ChallengeInput {
  /** The user's DID exactly as received. */
  did: string
  secret: string
  /** Number of the window, see {@link challengeWindow}. */
  window: number
  /** How many signatures of this DID were used up in this window. */
  useCount: number
}

/**
 * The challenge that a DID has to sign: 64 hexadecimal characters without `0x`.
 *
 * A challenge is not stored: it is computed again when the signed response arrives.
 *
 * @see specification, table "Challenge": keccak256 of DID, secret and window, joined with `-`. The first challenge of a
 * window is exactly that; after each use the count of uses is appended, so that a captured signature opens nothing.
 */
export function computeChallenge(curve: Pick<Curve, 'keccak256Hex'>, input: ChallengeInput): string {
  const first = `${input.did}-${input.secret}-${String(input.window)}`
  return curve.keccak256Hex(input.useCount === 0 ? first : `${first}-${String(input.useCount)}`)
}

/**
 * Seconds for which the uses of a window are remembered after its end. Clocks of instances differ and are set back: to
 * one that is behind, the window goes on, and a used signature must stay used.
 */
export const USES_OUTLIVE_WINDOW_SECONDS = 60

/**
 * Number of the window that a moment lies in.
 *
 * @param nowSeconds - whole seconds since the Unix epoch
 * @param windowSeconds - length of a window in seconds, at least 1
 */
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
