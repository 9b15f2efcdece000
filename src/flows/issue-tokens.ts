import { DidAuthError } from '../errors.js'
import { createAccessTokenPayload, RESOURCE_TOKEN_SECONDS } from '../protocol/access-token.js'
import type { JsonObject } from '../protocol/json.js'
import type { AuthenticatedUser } from '../ports.js'
import type { Parts } from './parts.js'
import type { ProvedUser } from './user.js'

const TOKEN_ID_BYTES = 16

/** The tokens that a client receives. */
export interface Tokens {
  accessToken: string
  refreshToken: string
  /** Lifetime of the refresh token in seconds. */
  refreshTokenSeconds: number
}

/** Signs an access token for a session. @throws DidAuthError ERR_SIGNER */
export async function issueAccessToken(
  parts: Pick<Parts, 'settings' | 'random' | 'serviceKey' | 'deadline' | 'verifiedTokens'>,
  user: ProvedUser,
  session: { sessionId: string; tokenClaims: JsonObject | undefined },
  nowSeconds: number
): Promise<string> {
  const { settings, random, serviceKey, deadline, verifiedTokens } = parts
  const { serviceDid: iss, serviceUrl: aud, accessTokenSeconds } = settings
  const ids = { iss, aud, sub: user.did, jti: random.id(TOKEN_ID_BYTES), sid: session.sessionId }
  const claims = createAccessTokenPayload(ids, nowSeconds, accessTokenSeconds, session.tokenClaims)
  const token = await serviceKey.issueJwt(claims, deadline)
  verifiedTokens.set(token, { claims, canonicalDid: user.canonicalDid, address: user.address })
  return token
}

/** Issues a user's token for another service. @throws DidAuthError ERR_RESOURCE @see RFC 9068, section 2.2 */
export async function issueResourceToken(
  { settings, clock, random, resourceKeys }: Pick<Parts, 'settings' | 'clock' | 'random' | 'resourceKeys'>,
  { claims: { nbf: _nbf, use: _use, ctl: _ctl, ...userClaims } }: AuthenticatedUser,
  resource: unknown
): Promise<{ accessToken: string; expiresIn: number }> {
  const { resources, serviceUrl: iss } = settings
  if (typeof resource !== 'string' || !resources.includes(resource)) {
    throw new DidAuthError('ERR_RESOURCE', { reason: { check: 'resource', expected: resources, option: 'resources' } })
  }
  const iat = clock.nowSeconds()
  const times = { exp: iat + RESOURCE_TOKEN_SECONDS, iat }
  const tokenClaims = { iss, aud: resource, client_id: iss, jti: random.id(TOKEN_ID_BYTES), ...times }
  const accessToken = await resourceKeys.sign({ ...(userClaims as JsonObject), ...tokenClaims })
  return { accessToken, expiresIn: RESOURCE_TOKEN_SECONDS }
}
