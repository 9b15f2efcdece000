import { DidAuthError } from '../errors.js'
import type { Curve } from './curve.js'
import { isDid } from './did.js'
import { deepFreeze, type JsonObject } from './json.js'
import { isPlainEs256kHeader, isSignedBy, parseJwt } from './jwt.js'

/** Longest access token that is looked at, in bytes. */
export const MAX_ACCESS_TOKEN_BYTES = 4096

/** Seconds by which the clock of another instance may run ahead of ours. */
export const NOT_BEFORE_TOLERANCE_SECONDS = 5

const RESERVED_CLAIMS: ReadonlySet<string> = new Set(
  'iss aud sub exp nbf iat jti sid use vc vp type __proto__'.split(' ')
)

/** The payload of a verified access token: the claims of the specification and those that business logic added. */
export interface AccessTokenClaims {
  readonly iss: string
  readonly aud: string
  readonly sub: string
  /** Seconds since the Unix epoch, as are `nbf` and `iat`. */
  readonly exp: number
  readonly nbf: number
  readonly iat: number
  readonly jti?: string
  /** The session that the token belongs to; absent in a token made elsewhere with the service's key. */
  readonly sid?: string
  readonly use?: 'access'
  readonly [claim: string]: unknown
}

export interface NewAccessToken {
  serviceDid: string
  serviceUrl: string
  userDid: string
  sessionId: string
  tokenId: string
  nowSeconds: number
  lifetimeSeconds: number
  tokenClaims: JsonObject | undefined
}

/**
 * The payload of a new access token. Claims of the business logic come first, so that they override nothing.
 *
 * @see specification, "Access token"; contract, "Tokens"
 */
export function accessTokenPayload(token: NewAccessToken): AccessTokenClaims & JsonObject {
  return deepFreeze({
    ...token.tokenClaims,
    iss: token.serviceDid,
    aud: token.serviceUrl,
    sub: token.userDid,
    exp: token.nowSeconds + token.lifetimeSeconds,
    nbf: token.nowSeconds,
    iat: token.nowSeconds,
    jti: token.tokenId,
    sid: token.sessionId,
    use: 'access' as const
  })
}

/** Whether a claim is the protocol's own, not to be given by business logic. */
export function isReservedClaim(name: string): boolean {
  return RESERVED_CLAIMS.has(name)
}

/** What an access token is verified against. */
export interface AccessTokenExpectation {
  serviceDid: string
  serviceUrl: string
  /** 65 bytes, uncompressed. */
  publicKey: Uint8Array
  nowSeconds: number
}

/**
 * Verifies an access token: form, header, claims, signature, times, in this order; no network, no DID resolution.
 *
 * `exp` has no tolerance; `nbf` has {@link NOT_BEFORE_TOLERANCE_SECONDS}.
 *
 * @returns its claims, frozen
 * @throws DidAuthError ERR_ACCESS_TOKEN, or ERR_ACCESS_TOKEN_EXPIRED when it is expired and otherwise good
 * @see RFC 8725, sections 3.1, 3.3, 3.8 to 3.12
 */
export function verifyAccessToken(
  curve: Pick<Curve, 'sha256' | 'verify'>,
  token: unknown,
  expected: AccessTokenExpectation
): AccessTokenClaims {
  const jwt = parseJwt(token, MAX_ACCESS_TOKEN_BYTES)
  if (
    jwt === undefined ||
    !isPlainEs256kHeader(jwt.header) ||
    !isAccessTokenPayload(jwt.payload, expected) ||
    !isSignedBy(curve, jwt, expected.publicKey)
  ) {
    throw new DidAuthError('ERR_ACCESS_TOKEN')
  }
  assertInForce(jwt.payload, expected.nowSeconds)
  return deepFreeze(jwt.payload)
}

/**
 * Asserts that verified claims are in force now: what has to be asked again at every use of a token seen before.
 *
 * @throws DidAuthError ERR_ACCESS_TOKEN, ERR_ACCESS_TOKEN_EXPIRED
 */
export function assertInForce(claims: Pick<AccessTokenClaims, 'nbf' | 'exp'>, nowSeconds: number): void {
  if (nowSeconds + NOT_BEFORE_TOLERANCE_SECONDS < claims.nbf) throw new DidAuthError('ERR_ACCESS_TOKEN')
  if (nowSeconds >= claims.exp) throw new DidAuthError('ERR_ACCESS_TOKEN_EXPIRED')
}

function isAccessTokenPayload(
  payload: Record<string, unknown>,
  expected: AccessTokenExpectation
): payload is Record<string, unknown> & AccessTokenClaims {
  const { iss, aud, sub, exp, nbf, iat, jti, sid, use } = payload
  return (
    iss === expected.serviceDid &&
    aud === expected.serviceUrl &&
    isDid(sub) &&
    [exp, nbf, iat].every(Number.isSafeInteger) &&
    [jti, sid].every((id) => id === undefined || typeof id === 'string') &&
    (use === undefined || use === 'access') &&
    // Signed by the same key, but something else: a credential, a selective disclosure request.
    !('vc' in payload) &&
    !('vp' in payload) &&
    !('type' in payload)
  )
}
