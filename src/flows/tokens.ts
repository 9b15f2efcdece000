import { createHash, createHmac } from 'node:crypto'
import { DidAuthError } from '../errors.js'
import { createAccessTokenPayload, replaceClaims, RESOURCE_TOKEN_SECONDS } from '../protocol/access-token.js'
import type { AuthenticatedUser, Client } from '../ports.js'
import { describeValue } from '../protocol/describe-value.js'
import type { JsonObject } from '../protocol/json.js'
import { isSameUrl } from '../protocol/parse-url.js'
import { isTokenOf, judgeRefresh, type Session, type StoredSession } from '../protocol/session.js'
import type { BoundSession } from './device-binding.js'
import { endSession } from './end-session.js'
import type { LoginParts, Parts } from './parts.js'
import { isRefusal, runBusinessLogic } from './run-business-logic.js'
import { identifySessionUser, type ProvedUser } from './user.js'

const REFRESH_TOKEN = /^([A-Za-z0-9_-]{1,64})\.[A-Za-z0-9_-]{43}$/
const USER_TAG_BYTES = 6
const SESSION_RANDOM_BYTES = 12
const SECRET_BYTES = 32
const TOKEN_ID_BYTES = 16

/** The tokens that a client receives. */
export interface Tokens {
  accessToken: string
  refreshToken: string
  /** Lifetime of the refresh token in seconds. */
  refreshTokenSeconds: number
}

type RefreshParts = Omit<Parts, 'credentialVerifier' | 'disclosureRequests' | 'scheduler'>

/**
 * Exchanges a refresh token for new tokens. A refresh token works once: of several simultaneous requests, exactly one
 * succeeds. A request repeated with its idempotency key gets the same new refresh token, until that one is used.
 * The access token is signed before the store changes, so that a failure leaves the old refresh token valid.
 * @throws DidAuthError ERR_REFRESH_TOKEN; ERR_DEVICE_PROOF, ERR_DEVICE_NONCE and ERR_TOO_MANY_REQUESTS (the session is
 * bound to a device, and stays active); ERR_REFRESH_TOKEN_REUSED and ERR_BUSINESS_LOGIC (the session is revoked now);
 * ERR_BUSINESS_LOGIC_TIMEOUT, ERR_INTERNAL, ERR_SIGNER, ERR_STORE; with `didControl: 'document'` ERR_RESOLVER, ERR_BUSY
 * @see RFC 9700, section 4.14.2
 */
export async function refreshTokens(
  parts: RefreshParts,
  request: {
    refreshToken: unknown
    idempotencyKey: string | undefined
    client: Client
    /** Asserts that the request comes from what the session is bound to. Undefined: no session is bound. */
    assertBound?: (session: BoundSession) => Promise<void>
  }
): Promise<Tokens & { isRepeated: boolean }> {
  const { settings, store } = parts
  const { refreshToken, idempotencyKey, client } = request
  const { presented, session } = await findPresentedSession(parts, refreshToken)
  // Before anything else: a refused request must not show the state of a bound session.
  const { did, sessionId, tokenClaims: claims } = session
  if (request.assertBound !== undefined) await request.assertBound({ did, sessionId, claims })
  else if (claims?.cnf !== undefined) throw createRefusal('cnf', 'a bound session')
  const nowSeconds = parts.clock.nowSeconds()
  const secret = deriveSuccessor(settings, presented.token, idempotencyKey)
  const next = createRefreshToken(parts, session, nowSeconds, secret)
  const nextExpiresAtSeconds = next.expiresAtSeconds
  const hashes = { presentedHash: presented.hash, nextHash: next.hash }
  const refresh = { ...hashes, nowSeconds, graceSeconds: settings.refreshReuseGraceSeconds }
  // A preview, so that a refused refresh neither runs business logic nor signs. The store decides atomically below.
  const preview = judgeRefresh(session, refresh)
  const mayRefresh = preview === 'rotate' || preview === 'repeated'
  if (!mayRefresh && preview !== 'reused') throw createRefusal('session', preview)
  if (nextExpiresAtSeconds <= nowSeconds) throw createRefusal('session', 'ended')

  const user = mayRefresh ? await identifySessionUser(parts, session, client) : undefined
  const tokenClaims = user ? await decideClaims(parts, user, session) : session.tokenClaims
  const accessToken = user ? await issueAccessToken(parts, user, { sessionId, tokenClaims }, nowSeconds) : ''
  const { serviceUrl: service } = settings
  const rotation = { service, sessionId, ...refresh, tokenClaims, nextExpiresAtSeconds }
  const verdict = await store.rotateRefreshToken(rotation)
  if (mayRefresh && (verdict === 'rotate' || verdict === 'repeated')) {
    const isRepeated = verdict === 'repeated'
    // A repeated refresh keeps the expiry of the first one: the stored expiry, or now's if this request lost a race.
    const storedExpiry = preview === 'repeated' ? session.expiresAtSeconds : Infinity
    const refreshTokenSeconds = Math.min(storedExpiry, nextExpiresAtSeconds) - nowSeconds
    if (!isRepeated) parts.report?.({ type: 'refresh', did: session.did, sessionId })
    return { accessToken, refreshToken: next.token, refreshTokenSeconds, isRepeated }
  }
  if (verdict !== 'reused') throw createRefusal('session', verdict)
  parts.logger.warn({ event: 'refresh-token-reused', sessionId }, 'session revoked')
  parts.report?.({ type: 'refresh-token-reused', did: session.did, sessionId })
  throw new DidAuthError('ERR_REFRESH_TOKEN_REUSED')
}

/**
 * Issues the tokens of a login, and the id of its session. The session is not stored yet.
 * @throws DidAuthError ERR_SIGNER
 */
export async function issueFirstTokens(
  parts: LoginParts,
  user: ProvedUser,
  tokenClaims: JsonObject | undefined,
  nowSeconds: number
): Promise<{ sessionId: string; refreshToken: StorableToken; accessToken: string }> {
  const sessionId = createSessionId(parts, user)
  const refreshToken = createRefreshToken(parts, { sessionId, createdAtSeconds: nowSeconds }, nowSeconds)
  const accessToken = await issueAccessToken(parts, user, { sessionId, tokenClaims }, nowSeconds)
  return { sessionId, refreshToken, accessToken }
}

/**
 * Creates a session id, base64url: 6 bytes of the SHA-256 of the canonical DID, by which stores can find the user's
 * shard, and 12 random bytes.
 */
function createSessionId({ random }: Pick<Parts, 'random'>, user: ProvedUser): string {
  const hash = createHash('sha256').update(user.canonicalDid).digest()
  return hash.subarray(0, USER_TAG_BYTES).toString('base64url') + random.id(SESSION_RANDOM_BYTES)
}

/**
 * Finds the session of a refresh token, in any state.
 * @throws DidAuthError ERR_REFRESH_TOKEN if the session or its token is unknown, ERR_STORE
 */
export async function findPresentedSession(
  { settings, store }: Pick<Parts, 'settings' | 'store'>,
  received: unknown
): Promise<{ presented: { token: string; hash: string }; session: StoredSession }> {
  const sessionId = typeof received === 'string' ? REFRESH_TOKEN.exec(received)?.[1] : undefined
  if (typeof received !== 'string' || sessionId === undefined) throw createRefusal('form', typeof received)
  const presented = { token: received, hash: hashRefreshToken(received) }
  const session = await store.findSession(settings.serviceUrl, sessionId)
  if (session === undefined) throw createRefusal('session', 'unknown')
  if (!isTokenOf(session, presented.hash)) throw createRefusal('secret', 'unknown')
  return { presented, session }
}

/** Signs an access token for a session. @throws DidAuthError ERR_SIGNER */
async function issueAccessToken(
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

/** Hashes a refresh token for the store: SHA-256 as base64url. Its 256 random bits need no salt. */
export function hashRefreshToken(refreshToken: string): string {
  return createHash('sha256').update(refreshToken).digest('base64url')
}

/** A refresh token, the hash under which it is stored, and its expiry in seconds since the Unix epoch. */
interface StorableToken {
  token: string
  hash: string
  expiresAtSeconds: number
}

/** Creates a refresh token of a session, `<sessionId>.<secret>`. */
export function createRefreshToken(
  { random, settings }: Pick<Parts, 'random' | 'settings'>,
  { sessionId, createdAtSeconds }: Pick<Session, 'sessionId' | 'createdAtSeconds'>,
  nowSeconds: number,
  secret = random.id(SECRET_BYTES)
): StorableToken {
  const { sessionSeconds, absoluteSessionSeconds } = settings
  const token = `${sessionId}.${secret}`
  const expiresAtSeconds = Math.min(nowSeconds + sessionSeconds, createdAtSeconds + absoluteSessionSeconds)
  return { token, hash: hashRefreshToken(token), expiresAtSeconds }
}

/** Derives the secret of the next token, equal for equal `Idempotency-Key`s; undefined if the request has no key. */
function deriveSuccessor(
  { challengeSecret, serviceUrl }: Parts['settings'],
  token: string,
  idempotencyKey: string | undefined
): string | undefined {
  if (idempotencyKey === undefined) return undefined
  const secret = createHmac('sha256', challengeSecret).update(`refresh-successor\n${serviceUrl}`).digest()
  return createHmac('sha256', secret).update(`${token}\n${idempotencyKey}`).digest('base64url')
}

function createRefusal(check: string, got: string): DidAuthError {
  const reason = { check, expected: 'the refresh token of an active session', got }
  return new DidAuthError('ERR_REFRESH_TOKEN', { reason })
}

/**
 * Runs business logic and returns the new claims of the session. An explicit refusal with any code revokes the session.
 * Any other error is a failure and changes nothing, because an outage must not end sessions.
 */
async function decideClaims(
  parts: Pick<Parts, 'settings' | 'clock' | 'store' | 'deadline' | 'logger' | 'report' | 'systemErrorCodes'>,
  { did, canonicalDid, address }: ProvedUser,
  session: StoredSession
): Promise<JsonObject | undefined> {
  const { settings, report } = parts
  const logic = settings.refreshBusinessLogic
  if (logic === undefined) return session.tokenClaims
  const { refreshTokenHash: _hash, replacedTokens: _replaced, ...publicSession } = session
  const shown = { ...publicSession, canonicalDid, address }
  try {
    const tokenClaims = await runBusinessLogic(parts, () => logic(did, shown), 'explicit')
    return tokenClaims === undefined ? session.tokenClaims : replaceClaims(session.tokenClaims, tokenClaims)
  } catch (error) {
    if (isRefusal(error)) {
      const { sessionId } = session
      const isRevoked = await endSession(parts, sessionId, 'revoked')
      if (isRevoked) report?.({ type: 'session-revoked', did, sessionId, code: error.code })
    }
    throw error
  }
}

/** Token for another service. */
export interface ResourceToken {
  accessToken: string
  /** Lifetime in seconds. */
  expiresIn: number
}

type ResourceParts = Pick<Parts, 'settings' | 'clock' | 'random' | 'resourceKeys' | 'deadline'>

/** Issues a user's token for another service. @throws DidAuthError ERR_RESOURCE, ERR_SIGNER */
export async function issueResourceToken(
  parts: ResourceParts,
  { claims: { nbf: _nbf, use: _use, ctl: _ctl, cnf: _cnf, ...userClaims } }: AuthenticatedUser,
  resource: unknown
): Promise<ResourceToken> {
  const { resources, serviceUrl } = parts.settings
  const aud = findResource(resources, resource)
  return signResourceToken(parts, { ...(userClaims as JsonObject), aud, client_id: serviceUrl })
}

/** Signs a token for another service. @param claims - with `aud`, `sub`, `client_id` @see RFC 9068, section 2.2 */
export async function signResourceToken(
  { settings, clock, random, resourceKeys, deadline }: ResourceParts,
  claims: JsonObject
): Promise<ResourceToken> {
  const iat = clock.nowSeconds()
  const times = { exp: iat + RESOURCE_TOKEN_SECONDS, iat }
  const ids = { iss: settings.serviceUrl, jti: random.id(TOKEN_ID_BYTES) }
  const accessToken = await resourceKeys.sign({ ...claims, ...ids, ...times }, deadline)
  return { accessToken, expiresIn: RESOURCE_TOKEN_SECONDS }
}

/**
 * Returns the configured text of a resource, whose URL may have another spelling. A request without one means the only
 * resource.
 * @throws DidAuthError ERR_RESOURCE
 * @see RFC 8707, section 2
 */
export function findResource(resources: readonly string[], received: unknown): string {
  const isOnly = received === undefined && resources.length === 1
  const resource = isOnly
    ? resources[0]
    : (resources.find((url) => url === received) ?? resources.find((url) => isSameUrl(url, received)))
  if (resource !== undefined) return resource
  const reason = { check: 'resource', expected: resources, got: describeValue(received), option: 'resources' }
  throw new DidAuthError('ERR_RESOURCE', { reason })
}
