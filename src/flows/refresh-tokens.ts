import { DidAuthError } from '../errors.js'
import { hashRefreshToken } from '../protocol/session.js'
import { issueAccessToken, newRefreshToken, type Tokens } from './issue-tokens.js'
import type { Parts } from './parts.js'

const REFRESH_TOKEN = /^[A-Za-z0-9_-]{43}$/

/**
 * Exchanges a refresh token for new tokens. It works once: of any number of simultaneous uses exactly one wins.
 *
 * The new access token is signed before the store changes, so that a failure leaves the old refresh token good.
 *
 * @param refreshToken - what was received; anything
 * @throws DidAuthError ERR_REFRESH_TOKEN, ERR_REFRESH_TOKEN_REUSED (its session is revoked now), ERR_SIGNER, ERR_STORE
 * @see RFC 9700, section 4.14.2
 */
export async function refreshTokens(
  parts: Pick<Parts, 'settings' | 'clock' | 'random' | 'curve' | 'serviceKey' | 'store' | 'verifiedTokens' | 'logger'>,
  refreshToken: unknown
): Promise<Tokens> {
  const { settings, store } = parts
  if (typeof refreshToken !== 'string' || !REFRESH_TOKEN.test(refreshToken)) throw new DidAuthError('ERR_REFRESH_TOKEN')
  const presentedHash = hashRefreshToken(parts.curve, refreshToken)
  const session = await store.findSession(settings.serviceUrl, presentedHash)
  const nowSeconds = parts.clock.nowSeconds()
  // Only to save a signature: the atomic verb below is what decides.
  if (session?.state !== 'active') throw new DidAuthError('ERR_REFRESH_TOKEN')

  const accessToken = await issueAccessToken(parts, session, nowSeconds)
  const next = newRefreshToken(parts)
  const verdict = await store.rotateRefreshToken({
    service: settings.serviceUrl,
    presentedHash,
    nextHash: next.hash,
    nowSeconds,
    nextExpiresAtSeconds: nowSeconds + settings.sessionSeconds,
    graceSeconds: settings.refreshReuseGraceSeconds
  })
  if (verdict === 'rotate') return { accessToken, refreshToken: next.token }
  if (verdict !== 'reused') throw new DidAuthError('ERR_REFRESH_TOKEN')
  parts.logger.warn({ event: 'refresh-token-reused', sessionId: session.sessionId }, 'session revoked')
  throw new DidAuthError('ERR_REFRESH_TOKEN_REUSED')
}
