import { pureCurve } from '../adapters/curve-pure.js'
import { RecentEntries } from '../caches.js'
import type { DidAuthInfo } from '../express-types.js'
import { assertInForce, verifyAccessToken } from '../protocol/access-token.js'
import { addressOfDid, canonicalDid, isEthrDid } from '../protocol/did.js'
import { parseVerifierOptions, type VerifierOptions } from './options.js'
import { readToken, type TokenRequest } from './read-token.js'

/** The user of a verified access token. */
export interface VerifiedToken extends DidAuthInfo {
  /** The user's DID as received at login. Keep accounts by `canonicalDid`. */
  did: string
}

/** Verifies access tokens of one service. */
export interface AccessTokenVerifier {
  /** Verifies a token. @throws DidAuthError ERR_ACCESS_TOKEN, ERR_ACCESS_TOKEN_EXPIRED; with a resolver ERR_RESOLVER */
  (token: unknown): Promise<VerifiedToken>
  /**
   * Verifies the access token of a request of the web or of Node: `Authorization` with `DIDAuth` or `Bearer`, else the
   * cookie of the service.
   *
   * @throws DidAuthError as above; ERR_ACCESS_TOKEN_MISSING, ERR_DUPLICATE_COOKIE, ERR_CROSS_ORIGIN
   */
  request(request: TokenRequest): Promise<VerifiedToken>
  /** As configured. */
  readonly audience: string
}

/**
 * Makes a verifier of the access tokens that a service of this package issues, for other services. It runs in Node,
 * Workers and browsers, and asks no network unless `resolver` is given. It cannot see that a session was ended: a token
 * is good until its `exp`. How far ahead `exp` may lie is for the service to decide: a verifier cannot tell one that is
 * too far.
 *
 * @throws DidAuthError ERR_CONFIG
 * @example
 * const verify = accessTokenVerifier({ issuer: 'did:ethr:rsk:0x…', audience: 'https://auth.example.com' })
 * const { did, claims } = await verify(token)
 */
export function accessTokenVerifier(options: VerifierOptions): AccessTokenVerifier {
  const verified = new RecentEntries<VerifiedToken>()
  const settings = parseVerifierOptions(options, () => verified.clear())
  const { issuer, audience, clock, cookieRule } = settings

  const verify = async (token: unknown): Promise<VerifiedToken> => {
    const isSigned = await settings.keys()
    const now = clock.nowSeconds()
    const seenBefore = typeof token === 'string' ? verified.get(token) : undefined
    if (seenBefore !== undefined) {
      assertInForce(seenBefore.claims, now)
      return seenBefore
    }
    // Which key it is, `isSigned` knows.
    const curve = { sha256: pureCurve.sha256, verify: isSigned }
    const expected = { serviceDid: issuer, serviceUrl: audience, publicKey: new Uint8Array(), nowSeconds: now }
    const claims = verifyAccessToken(curve, token, expected)
    const did = claims.sub
    const address = isEthrDid(did) ? addressOfDid(did, pureCurve) : undefined
    const user = Object.freeze({ did, sessionId: claims.sid, canonicalDid: canonicalDid(did), address, claims })
    if (typeof token === 'string') verified.set(token, user)
    return user
  }
  const request = async (given: TokenRequest): Promise<VerifiedToken> => verify(readToken(given, cookieRule))
  return Object.assign(verify, { request, audience })
}
