import { Buffer } from 'node:buffer'
import { DidAuthError } from '../errors.js'
import { createAccessTokenPayload, RESOURCE_TOKEN_SECONDS } from '../protocol/access-token.js'
import type { JsonObject } from '../protocol/json.js'
import type { LoginProof } from '../protocol/login-proof.js'
import { hashRefreshToken } from '../protocol/session.js'
import type { AuthenticatedUser } from '../ports.js'
import type { LoginParts, Parts } from './parts.js'
import type { ProvedUser } from './user.js'

const TOKEN_ID_BYTES = 16
const USER_TAG_BYTES = 6
const SESSION_RANDOM_BYTES = 12
const SECRET_BYTES = 32

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

/** Creates a refresh token of a session, `<sessionId>.<secret>`, and the hash under which it is stored. */
export function createRefreshToken(
  { curve, random }: Pick<Parts, 'curve' | 'random'>,
  sessionId: string,
  secret = random.id(SECRET_BYTES)
): { token: string; hash: string } {
  const token = `${sessionId}.${secret}`
  return { token, hash: hashRefreshToken(curve, token) }
}

/** Computes the expiry of a session that is opened or refreshed now, in seconds since the Unix epoch. */
export function computeSessionEnd(
  { sessionSeconds, absoluteSessionSeconds }: Parts['settings'],
  createdAtSeconds: number,
  nowSeconds: number
): number {
  return Math.min(nowSeconds + sessionSeconds, createdAtSeconds + absoluteSessionSeconds)
}

/**
 * Opens a session and issues its first tokens. The access token is signed first, so that a failing signer leaves no
 * orphaned session. With `didControl: 'document'`, the session stores the address that signed.
 * @throws DidAuthError ERR_SIGNER, ERR_STORE
 */
export async function openSession(
  parts: LoginParts,
  user: ProvedUser,
  session: { event: 'login' | 'signup'; proof: LoginProof; tokenClaims: JsonObject | undefined }
): Promise<Tokens> {
  const { settings, clock, store, logger, report } = parts
  const { event, proof } = session
  const nowSeconds = clock.nowSeconds()
  const tokenClaims =
    settings.didControl === 'document' ? { ...session.tokenClaims, ctl: user.address } : session.tokenClaims
  const sessionId = createSessionId(parts, user)
  const refreshToken = createRefreshToken(parts, sessionId)
  const expiresAtSeconds = computeSessionEnd(settings, nowSeconds, nowSeconds)
  const accessToken = await issueAccessToken(parts, user, { sessionId, tokenClaims }, nowSeconds)
  const evicted = await store.createSession({
    service: settings.serviceUrl,
    sessionId,
    did: user.did,
    refreshTokenHash: refreshToken.hash,
    tokenClaims,
    nowSeconds,
    expiresAtSeconds
  })
  if (evicted > 0) {
    logger.warn({ event: 'sessions-evicted', count: evicted }, 'the store is full: sessions were evicted')
    report({ type: 'sessions-evicted', count: evicted })
  }
  report({ type: event, did: user.did, sessionId, ...(settings.loginProofs && { proof }) })
  return { accessToken, refreshToken: refreshToken.token, refreshTokenSeconds: expiresAtSeconds - nowSeconds }
}

/**
 * Creates a session id, base64url: 6 bytes of the SHA-256 of the canonical DID, by which stores can find the user's
 * shard, and 12 random bytes.
 */
function createSessionId({ curve, random }: Pick<Parts, 'curve' | 'random'>, user: ProvedUser): string {
  const userTag = curve.sha256(user.canonicalDid).subarray(0, USER_TAG_BYTES)
  return Buffer.from(userTag).toString('base64url') + random.id(SESSION_RANDOM_BYTES)
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
