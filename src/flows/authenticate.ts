import { DidAuthError } from '../errors.js'
import { assertInForce, verifyAccessToken, type AccessTokenClaims } from '../protocol/access-token.js'
import type { Parts } from './parts.js'

/**
 * Verifies the access token of a request, from memory where it was seen before; its times are looked at every time.
 *
 * @throws DidAuthError ERR_ACCESS_TOKEN_MISSING, ERR_ACCESS_TOKEN, ERR_ACCESS_TOKEN_EXPIRED, ERR_SIGNER
 */
export async function authenticate(
  parts: Pick<Parts, 'settings' | 'clock' | 'curve' | 'serviceKey' | 'verifiedTokens'>,
  accessToken: string | undefined
): Promise<AccessTokenClaims> {
  if (accessToken === undefined) throw new DidAuthError('ERR_ACCESS_TOKEN_MISSING')
  const nowSeconds = parts.clock.nowSeconds()
  const seenBefore = parts.verifiedTokens.get(accessToken)
  if (seenBefore !== undefined) {
    assertInForce(seenBefore, nowSeconds)
    return seenBefore
  }
  const { serviceDid, serviceUrl } = parts.settings
  const publicKey = await parts.serviceKey.publicKey()
  const claims = verifyAccessToken(parts.curve, accessToken, { serviceDid, serviceUrl, publicKey, nowSeconds })
  parts.verifiedTokens.add(accessToken, claims)
  return claims
}
