import { DidAuthError } from '../errors.js'
import type { AuthenticatedUser } from '../ports.js'
import { assertInForce, verifyAccessToken, type AccessTokenClaims } from '../protocol/access-token.js'
import { addressOfDid, canonicalDid, isEthrDid } from '../protocol/did.js'
import { endOfSession } from '../protocol/session.js'
import { getController } from './user.js'
import { chargeUser } from './limits.js'
import type { Parts } from './parts.js'

/**
 * Verifies the access token of a request. If it was verified before, only its times are checked again.
 * @throws DidAuthError ERR_ACCESS_TOKEN_MISSING, ERR_ACCESS_TOKEN, ERR_ACCESS_TOKEN_EXPIRED, ERR_SIGNER
 */
export async function authenticate(
  parts: Pick<Parts, 'settings' | 'clock' | 'curve' | 'tokenCurve' | 'serviceKey' | 'verifiedTokens'>,
  accessToken: string | undefined
): Promise<AuthenticatedUser> {
  if (accessToken === undefined) throw new DidAuthError('ERR_ACCESS_TOKEN_MISSING')
  const nowSeconds = parts.clock.nowSeconds()
  const { serviceDid, previousServiceDids, serviceUrl, accessTokenSeconds } = parts.settings
  const verifiedUser = parts.verifiedTokens.get(accessToken)
  if (verifiedUser !== undefined) {
    assertInForce(verifiedUser.claims, nowSeconds, accessTokenSeconds)
    return verifiedUser
  }
  const publicKey = await parts.serviceKey.publicKey()
  const issuer = { serviceDid, previousServiceDids, serviceUrl, publicKey }
  const expected = { ...issuer, nowSeconds, maxLifetimeSeconds: accessTokenSeconds }
  const claims = verifyAccessToken(parts.tokenCurve, accessToken, expected)
  const did = claims.sub
  const address = isEthrDid(did) ? getController(parts.settings, claims, addressOfDid(did, parts.curve)) : undefined
  const user = { claims, canonicalDid: canonicalDid(did), address }
  parts.verifiedTokens.set(accessToken, user)
  return user
}

/**
 * Asserts that a session is active, by reading the store.
 * @throws DidAuthError ERR_ACCESS_TOKEN for a token without a session, ERR_SESSION_ENDED, ERR_STORE
 */
export async function assertSessionActive(
  parts: Pick<Parts, 'settings' | 'clock' | 'store'>,
  sessionId: string | undefined
): Promise<void> {
  if (sessionId === undefined) {
    throw new DidAuthError('ERR_ACCESS_TOKEN', { reason: { check: 'sid', expected: 'a session id', got: 'none' } })
  }
  const { serviceUrl, absoluteSessionSeconds } = parts.settings
  const session = await parts.store.findSession(serviceUrl, sessionId)
  const nowSeconds = parts.clock.nowSeconds()
  if (session?.state === 'active' && nowSeconds < endOfSession(session, absoluteSessionSeconds)) return
  const got = session?.state === 'active' ? 'expired' : (session?.state ?? 'unknown')
  throw new DidAuthError('ERR_SESSION_ENDED', { reason: { check: 'session', expected: 'active', got } })
}

/** The token of a guarded request, and the options of its guard. */
export interface GuardedRequest {
  /** Access token of this service. */
  accessToken: string | undefined
  /** Token that another service issued for this one. */
  resourceToken: string | undefined
  /** Whether the session has to be active. A token of another service has no session here, and is refused. */
  checkSession: boolean
  /** Claims with which this request already passed a guard and was charged: the same object while it is cached. */
  countedClaims: AccessTokenClaims | undefined
  /** Whether a page of another site made the browser send this safe request. */
  isForeignRead: boolean
}

/**
 * Verifies the token of a request and, with `checkSession`, its session; then charges the user's quota.
 * @throws DidAuthError as `authenticate` and `assertSessionActive`, ERR_TOO_MANY_REQUESTS; for a token of another
 * service also ERR_DID_UNSUPPORTED, ERR_KEYS
 */
export async function admitUser(
  parts: Pick<
    Parts,
    | 'settings'
    | 'clock'
    | 'curve'
    | 'tokenCurve'
    | 'serviceKey'
    | 'verifiedTokens'
    | 'store'
    | 'quotas'
    | 'resourceIssuer'
  >,
  { accessToken, resourceToken, checkSession, countedClaims, isForeignRead }: GuardedRequest
): Promise<AuthenticatedUser> {
  const foreignUser = resourceToken === undefined ? undefined : await parts.resourceIssuer?.(resourceToken)
  const user = foreignUser ?? (await authenticate(parts, accessToken))
  if (checkSession) await assertSessionActive(parts, foreignUser === undefined ? user.claims.sid : undefined)
  if (user.claims !== countedClaims) await chargeUser(parts, user.canonicalDid, isForeignRead)
  return user
}
