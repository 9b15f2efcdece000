/** Code that must or must not compile with the protocol by itself. Checked by `npm run types`, never run. */
import {
  addressOfDid,
  challengeSecondsLeft,
  computeChallenge,
  isDid,
  judgeRefresh,
  loginMessage,
  parseJwt,
  parseSignature,
  verifyAccessToken,
  type AccessTokenClaims,
  type Curve,
  type RecoverableSignature,
  type RefreshVerdict
} from 'express-did-auth/protocol'

declare const curve: Curve
declare const unknownValue: unknown

/** The protocol needs only this part of a curve. */
export const challenge: string = computeChallenge(
  { keccak256Hex: () => '' },
  { did: 'did:a:b', secret: 's', window: 1, useCount: 0 }
)
export const message: string = loginMessage('service.example', challenge)
export const secondsLeft: number = challengeSecondsLeft(1, 300)

/** Unchecked values from a stranger are accepted as arguments. */
export const signature: RecoverableSignature = parseSignature(unknownValue, 30)
export const address: string | undefined = isDid(unknownValue) ? addressOfDid(unknownValue) : undefined
export const claims: AccessTokenClaims = verifyAccessToken(curve, unknownValue, {
  serviceDid: 'did:a:b',
  serviceUrl: 'https://service.example',
  publicKey: new Uint8Array(65),
  nowSeconds: 0
})
export const payload: Record<string, unknown> | undefined = parseJwt(unknownValue, 4096)?.payload

const presented = { presentedHash: 'a', nextHash: 'b', nowSeconds: 0, graceSeconds: 10 }
export const verdict: RefreshVerdict = judgeRefresh(
  {
    state: 'active',
    expiresAtSeconds: 1,
    refreshTokenHash: 'a',
    replacedTokens: [{ hash: 'c', replacedAtSeconds: 0 }]
  },
  presented
)

// @ts-expect-error -- a DID is text that was looked at
addressOfDid(unknownValue)
// @ts-expect-error -- the time is an argument, there is no clock
verifyAccessToken(curve, 'a.b.c', { serviceDid: 'a', serviceUrl: 'b', publicKey: new Uint8Array(65) })
// @ts-expect-error -- there is no state `expired`: it is read from the time
judgeRefresh({ state: 'expired', expiresAtSeconds: 1, refreshTokenHash: 'a', replacedTokens: [] }, presented)
