import { DidAuthError } from '../errors.js'
import type { Curve } from './curve.js'
import { describeValue } from './describe-value.js'
import { isDid, isMachineDid } from './did.js'
import { freezeDeep, type JsonObject } from './json.js'
import { isPlainEs256kHeader, isSignedBy, parseJwt } from './jwt.js'
import { isSameUrl, isSecureUrl } from './parse-url.js'

/** Maximum length of an access token, in bytes. Longer tokens are refused without parsing. */
export const MAX_ACCESS_TOKEN_BYTES = 4096

/** Tolerance for `nbf`, in seconds: another instance's clock may be that much ahead of this one's. */
export const NOT_BEFORE_TOLERANCE_SECONDS = 5

/** Lifetime of a token for another service, in seconds. */
export const RESOURCE_TOKEN_SECONDS = 300

/**
 * Claims that a login sets and a session stores: the account, the kind of signer, the address that signed, and the key
 * of the device.
 */
const SESSION_CLAIMS = ['acct', 'amr', 'ctl', 'cnf']

/** Claims of the protocol, which business logic cannot set: `runBusinessLogic` drops them. */
export const RESERVED_CLAIMS: ReadonlySet<string> = new Set([
  ...'iss aud sub exp nbf iat jti sid use vc vp type __proto__'.split(' '),
  ...SESSION_CLAIMS
])

/** The payload of a verified access token: the protocol's claims, and those that business logic added. */
export interface AccessTokenClaims {
  /** DID of the service; of a resource token, its `serviceUrl`. */
  readonly iss: string
  /** URL of the service that accepts the token. */
  readonly aud: string
  /** DID of the user, as received at login. */
  readonly sub: string
  /** Seconds since the Unix epoch, as are `nbf` and `iat`. */
  readonly exp: number
  /** Time before which the token is refused. */
  readonly nbf: number
  /** Time at which the token was issued. */
  readonly iat: number
  /** Random id of the token. */
  readonly jti?: string
  /** Session of the token. Absent if another program issued the token with the service's key. */
  readonly sid?: string
  /** Mark of access tokens. Other tokens of the service are refused. */
  readonly use?: 'access'
  /** Claims that business logic added. */
  readonly [claim: string]: unknown
}

/**
 * Creates the payload. Claims of business logic cannot override those of the protocol.
 * @see specification, "Access token"
 */
export function createAccessTokenPayload(
  claims: { iss: string; aud: string; sub: string; jti: string; sid: string },
  nowSeconds: number,
  lifetimeSeconds: number,
  tokenClaims?: JsonObject
): AccessTokenClaims & JsonObject {
  const times = { exp: nowSeconds + lifetimeSeconds, nbf: nowSeconds, iat: nowSeconds }
  return freezeDeep({ ...tokenClaims, ...claims, ...times, use: 'access' as const })
}

/** Replaces the claims of a session by those that business logic returned at a refresh. The login's claims stay. */
export function replaceClaims(current: JsonObject | undefined, added: JsonObject): JsonObject {
  const loginClaims = Object.entries(current ?? {}).filter(([name]) => SESSION_CLAIMS.includes(name))
  return { ...added, ...Object.fromEntries(loginClaims) }
}

/** Expected values for verifying an access token. */
export interface AccessTokenExpectation {
  /** Expected `iss`. */
  serviceDid: string
  /** Further accepted values of `iss`: former DIDs of the service. */
  previousServiceDids?: readonly string[] | undefined
  /** Expected `aud`. */
  serviceUrl: string
  /** Public key of the service, uncompressed, 65 bytes. */
  publicKey: Uint8Array
  /** Current time, in seconds since the Unix epoch. */
  nowSeconds: number
  /** Maximum lifetime in seconds, see {@link assertInForce}. */
  maxLifetimeSeconds?: number | undefined
}

/**
 * Verifies an access token: form, header, claims, signature, times, in this order. It makes no network request and
 * resolves no DID. `exp` has no tolerance; `nbf` has {@link NOT_BEFORE_TOLERANCE_SECONDS}.
 * @returns the claims of the token, frozen
 * @throws DidAuthError ERR_ACCESS_TOKEN, or ERR_ACCESS_TOKEN_EXPIRED if the token is expired and otherwise valid
 * @see RFC 8725, sections 3.1, 3.3, 3.8 to 3.12
 */
export function verifyAccessToken(
  curve: Pick<Curve, 'sha256' | 'verify'>,
  token: unknown,
  expected: AccessTokenExpectation
): AccessTokenClaims {
  const jwt = parseJwt(token, MAX_ACCESS_TOKEN_BYTES)
  if (jwt === undefined) throw createRefusal('form', 'a compact JWT of at most 4096 bytes')
  if (!isPlainEs256kHeader(jwt.header)) throw createRefusal('header', 'alg ES256K, typ JWT or absent')
  assertAccessTokenPayload(jwt.payload, expected)
  if (!isSignedBy(curve, jwt, expected.publicKey)) throw createRefusal('signature', expected.serviceDid)
  assertInForce(jwt.payload, expected.nowSeconds, expected.maxLifetimeSeconds)
  return freezeDeep(jwt.payload)
}

/**
 * Asserts that verified claims are valid at this time. Call it at every use of a token.
 * @param maxLifetimeSeconds - maximum distance of `exp` from now, plus {@link NOT_BEFORE_TOLERANCE_SECONDS}; default:
 * unlimited. A later `exp` shows that the issuer's clock ran ahead, or that this clock was set back
 * @throws DidAuthError ERR_ACCESS_TOKEN, ERR_ACCESS_TOKEN_EXPIRED
 */
export function assertInForce(
  claims: Pick<AccessTokenClaims, 'nbf' | 'exp'>,
  nowSeconds: number,
  maxLifetimeSeconds = Infinity
): void {
  const [secondsEarly, secondsLeft] = [claims.nbf - nowSeconds, claims.exp - nowSeconds]
  const maxSecondsLeft = maxLifetimeSeconds + NOT_BEFORE_TOLERANCE_SECONDS
  // First, because it names the cause if this clock is behind that of the issuer.
  if (secondsEarly > NOT_BEFORE_TOLERANCE_SECONDS) {
    const expected = `at most ${String(NOT_BEFORE_TOLERANCE_SECONDS)} s later than this clock`
    throw createRefusal('nbf', expected, `${String(secondsEarly)} s later`)
  }
  if (secondsLeft > maxSecondsLeft) throw createExpiry(`at most ${String(maxSecondsLeft)} s left`, secondsLeft)
  if (secondsLeft <= 0) throw createExpiry('later than this clock', secondsLeft)
}

function createExpiry(expected: string, secondsLeft: number): DidAuthError {
  const got = secondsLeft > 0 ? `${String(secondsLeft)} s left` : `${String(-secondsLeft)} s ago`
  return new DidAuthError('ERR_ACCESS_TOKEN_EXPIRED', { reason: { check: 'exp', expected, got } })
}

/**
 * Parses a token that another service issued for this one. Neither its signature nor its times are verified yet.
 * @returns `kid` of its header; its claims, frozen, with `iat` as a missing `nbf`; its signature and signed text
 * @throws DidAuthError ERR_ACCESS_TOKEN
 * @see RFC 9068, sections 2 and 4
 */
export function parseResourceToken(
  token: string,
  { issuer, audience }: { issuer: string; audience: string }
): { kid: string; claims: AccessTokenClaims; signingInput: string; signature: Uint8Array } {
  const jwt = parseJwt(token, MAX_ACCESS_TOKEN_BYTES)
  const { alg, typ, kid, ...others } = jwt?.header ?? {}
  const isPlain = alg === 'ES256' && typ === 'at+jwt' && Object.keys(others).length === 0
  if (jwt === undefined || !isPlain || typeof kid !== 'string') {
    throw createRefusal('header', 'a compact JWT with alg ES256, typ at+jwt, kid')
  }
  const claims = { nbf: jwt.payload.iat, ...jwt.payload }
  // Both services write these URLs in their options, one perhaps with a slash after the origin.
  const { iss, aud } = jwt.payload
  const serviceDid = isSameUrl(issuer, iss) ? String(iss) : issuer
  const serviceUrl = isSameUrl(audience, aud) ? String(aud) : audience
  assertAccessTokenPayload(claims, { serviceDid, serviceUrl }, isMachineDid)
  const { signingInput, signature } = jwt
  return { kid, claims: freezeDeep(claims), signingInput, signature }
}

function assertAccessTokenPayload(
  payload: Record<string, unknown>,
  expected: Pick<AccessTokenExpectation, 'serviceDid' | 'previousServiceDids' | 'serviceUrl'>,
  isSubject: (value: unknown) => boolean = isDid
): asserts payload is Record<string, unknown> & AccessTokenClaims {
  const { iss, aud, sub, exp, nbf, iat, jti, sid, use } = payload
  if (iss !== expected.serviceDid && !(isDid(iss) && expected.previousServiceDids?.includes(iss) === true)) {
    throw createRefusal('iss', expected.serviceDid, isDid(iss) || isSecureUrl(iss) ? iss.slice(0, 200) : typeof iss)
  }
  if (aud !== expected.serviceUrl) throw createRefusal('aud', expected.serviceUrl, describeValue(aud))
  if (!isSubject(sub)) throw createRefusal('sub', 'a DID', typeof sub)
  if (![exp, nbf, iat].every(Number.isSafeInteger)) {
    throw createRefusal('exp, nbf, iat', 'whole seconds', [typeof exp, typeof nbf, typeof iat])
  }
  if (![jti, sid].every((id) => id === undefined || typeof id === 'string')) {
    throw createRefusal('jti, sid', 'strings', [typeof jti, typeof sid])
  }
  if (use !== undefined && use !== 'access') throw createRefusal('use', 'access', typeof use)
  // The service also signs other JWTs with this key, such as selective disclosure requests.
  const foreign = ['vc', 'vp', 'type'].filter((name) => name in payload)
  if (foreign.length > 0) throw createRefusal('kind', 'an access token', foreign)
}

function createRefusal(check: string, expected: string, got?: string | readonly string[]): DidAuthError {
  return new DidAuthError('ERR_ACCESS_TOKEN', { reason: { check, expected, ...(got !== undefined && { got }) } })
}
