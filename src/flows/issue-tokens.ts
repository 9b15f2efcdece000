import { accessTokenPayload } from '../protocol/access-token.js'
import type { JsonObject } from '../protocol/json.js'
import { signJwt } from '../protocol/jwt.js'
import { hashRefreshToken } from '../protocol/session.js'
import type { Parts } from './parts.js'

const REFRESH_TOKEN_BYTES = 32
const ID_BYTES = 16

/** What a client gets. */
export interface Tokens {
  accessToken: string
  refreshToken: string
}

/** A refresh token, and the hash under which it is kept. */
export interface NewRefreshToken {
  token: string
  hash: string
}

/** Draws a refresh token: 32 random bytes as base64url. */
export function newRefreshToken(parts: Pick<Parts, 'random' | 'curve'>): NewRefreshToken {
  const token = parts.random.id(REFRESH_TOKEN_BYTES)
  return { token, hash: hashRefreshToken(parts.curve, token) }
}

/**
 * Signs an access token for a session.
 *
 * @throws DidAuthError ERR_SIGNER
 */
export async function issueAccessToken(
  parts: Pick<Parts, 'settings' | 'random' | 'serviceKey' | 'verifiedTokens'>,
  session: { sessionId: string; did: string; tokenClaims: JsonObject | undefined },
  nowSeconds: number
): Promise<string> {
  const { settings, random, serviceKey, verifiedTokens } = parts
  const claims = accessTokenPayload({
    serviceDid: settings.serviceDid,
    serviceUrl: settings.serviceUrl,
    userDid: session.did,
    sessionId: session.sessionId,
    tokenId: random.id(ID_BYTES),
    nowSeconds,
    lifetimeSeconds: settings.accessTokenSeconds,
    tokenClaims: session.tokenClaims
  })
  const token = await signJwt(claims, (data) => serviceKey.sign(data))
  verifiedTokens.add(token, claims)
  return token
}

/**
 * Opens a session and issues its first tokens. The access token is signed first, so that a failing signer leaves no
 * session behind that nobody holds a token of.
 *
 * @throws DidAuthError ERR_SIGNER, ERR_STORE
 */
export async function openSession(
  parts: Pick<Parts, 'settings' | 'random' | 'curve' | 'serviceKey' | 'verifiedTokens' | 'store'>,
  user: { did: string; tokenClaims: JsonObject | undefined },
  nowSeconds: number
): Promise<Tokens> {
  const sessionId = parts.random.id(ID_BYTES)
  const accessToken = await issueAccessToken(parts, { ...user, sessionId }, nowSeconds)
  const refreshToken = newRefreshToken(parts)
  await parts.store.createSession({
    service: parts.settings.serviceUrl,
    sessionId,
    did: user.did,
    refreshTokenHash: refreshToken.hash,
    tokenClaims: user.tokenClaims,
    nowSeconds,
    expiresAtSeconds: nowSeconds + parts.settings.sessionSeconds
  })
  return { accessToken, refreshToken: refreshToken.token }
}
