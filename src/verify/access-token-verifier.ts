import { pureCurve } from '../adapters/curve-pure.js'
import { RecentEntries } from '../caches.js'
import type { IsSigned } from '../adapters/named-keys.js'
import { assertOptions } from '../did-auth-info.js'
import { DidAuthError } from '../errors.js'
import type { DidAuthInfo } from '../did-auth-info.js'
import type { EndedSessionsOptions, WaitUntil } from '../ports.js'
import { assertInForce, MAX_ACCESS_TOKEN_BYTES, verifyAccessToken } from '../protocol/access-token.js'
import { assertSameSite } from '../protocol/cross-origin.js'
import { addressOfDid, canonicalDid, isDid, isEthrDid } from '../protocol/did.js'
import { parseJwt } from '../protocol/jwt.js'
import { parseHttpUrl } from '../protocol/parse-url.js'
import { listCookieValues } from '../protocol/token-cookies.js'
import { systemClock } from '../time.js'
import { createEndedSessionReader } from './ended-sessions.js'
import { createConfigError, createIssuerKeys, type IssuerResolver } from './issuer-keys.js'
import { readHeader, type TokenRequest } from './token-request.js'

const SCHEME = /^(?:DIDAuth|Bearer) +([^ ]+)$/i
const PREFIXES: readonly unknown[] = ['', '__Host-', '__Secure-']

/** Options of {@link accessTokenVerifier}. */
export interface VerifierOptions {
  /**
   * `serviceDid` of the service that issues the tokens. A `did:ethr` needs no further option, because it contains its
   * key or address. Give an array of the new and the previous DID while the service replaces its key.
   */
  issuer: string | readonly string[]
  /** `serviceUrl` of that service, in exactly the same spelling. */
  audience: string
  /** Public keys of an issuer that does not sign with the key of its DID: 33 or 65 bytes, or their hexadecimal. */
  publicKeys?: readonly (string | Uint8Array)[] | undefined
  /** Any did-resolver `Resolvable`, instead of keys. The issuer's DID document decides; it is cached for 60 s. */
  resolver?: IssuerResolver | undefined
  /** The `cookiePrefix` of the service. Default: none. */
  cookiePrefix?: '' | '__Host-' | '__Secure-' | undefined
  /** Further origins whose pages may make unsafe requests with cookies. The origin of `audience` always may. */
  trustedOrigins?: readonly string[] | undefined
  /**
   * Whether to refuse tokens of sessions that were logged out or revoked, about 2 s after that. The service publishes
   * their list (option `endedSessions` of `setupDidAuth`). `true` sets the defaults. Default: tokens are valid until
   * their `exp`.
   */
  endedSessions?: boolean | EndedSessionsOptions | undefined
  /** Clock of the verifier, for tests. Default: the clock of this machine. */
  clock?: { nowSeconds(): number } | undefined
}

const optionNames: Readonly<Record<keyof VerifierOptions, true>> = {
  issuer: true,
  audience: true,
  publicKeys: true,
  resolver: true,
  cookiePrefix: true,
  trustedOrigins: true,
  endedSessions: true,
  clock: true
}

/** The user of a verified access token. */
export interface VerifiedToken extends DidAuthInfo {
  /** The user's DID as received at login. Use `canonicalDid` as the key of accounts. */
  did: string
}

/** Verifier of the access tokens of one service. */
export interface AccessTokenVerifier {
  /**
   * Verifies a token.
   * @throws DidAuthError ERR_ACCESS_TOKEN, ERR_ACCESS_TOKEN_EXPIRED; with a resolver ERR_RESOLVER; with
   * `endedSessions` ERR_SESSION_ENDED, ERR_ENDED_SESSIONS
   */
  (token: unknown): Promise<VerifiedToken>
  /**
   * Verifies the access token of a request, from the header `Authorization` (`DIDAuth` or `Bearer`), else from the
   * service's cookie.
   *
   * @param context - `waitUntil` keeps a fetch of ended sessions alive after the response, as Workers need
   * @throws DidAuthError as above; also ERR_ACCESS_TOKEN_MISSING, ERR_DUPLICATE_COOKIE, ERR_CROSS_ORIGIN
   */
  request(request: TokenRequest, context?: { waitUntil?: WaitUntil | undefined }): Promise<VerifiedToken>
  /** `serviceUrl` of the service that issues and accepts the tokens. */
  readonly audience: string
}

/**
 * Creates a verifier of access tokens for other services. The tokens are those that a service of this package issues.
 *
 * It runs in Node, Workers and browsers, and makes no network request unless you give `resolver` or `endedSessions`.
 * Without `endedSessions`, a token stays valid until its `exp`, also after a logout.
 *
 * @throws DidAuthError ERR_CONFIG; TypeError for an unknown option
 * @example
 * const verify = accessTokenVerifier({ issuer: 'did:ethr:rsk:0x…', audience: 'https://auth.example.com' })
 * const { did, claims } = await verify(token)
 */
export function accessTokenVerifier(options: VerifierOptions): AccessTokenVerifier {
  assertOptions(options, optionNames)
  const { issuer, audience, clock: wallClock = systemClock } = options
  const dids: readonly unknown[] = Array.isArray(issuer) ? issuer : [issuer]
  if (dids.length === 0 || !dids.every(isDid)) {
    throw createConfigError('issuer: give the DID of the service that issues the tokens')
  }
  if (typeof audience !== 'string' || !audience)
    throw createConfigError('audience: give the serviceUrl of that service')
  if (!/^[\x21\x23-\x5b\x5d-\x7e]+$/.test(audience))
    throw createConfigError('audience: give a text without quote, \\ or space')
  const cookieRule = parseCookieRule(options)
  const clock = { nowSeconds: () => Math.floor(wallClock.nowSeconds()) }
  const verified = new RecentEntries<VerifiedToken>()
  const issuers = dids.map((did) => ({ did, keysNow: createIssuerKeys(did, options, clock, () => verified.clear()) }))

  const findIssuer = (iss: unknown): (typeof issuers)[number] => {
    const issuer = issuers.find(({ did }) => did === iss)
    if (issuer !== undefined) return issuer
    throw new DidAuthError('ERR_ACCESS_TOKEN', { reason: { check: 'iss', expected: dids } })
  }
  const findTokenIssuer = (token: unknown): (typeof issuers)[number] => {
    if (issuers.length === 1 && issuers[0] !== undefined) return issuers[0]
    return findIssuer(parseJwt(token, MAX_ACCESS_TOKEN_BYTES)?.payload.iss)
  }

  const findKeys = async (issuer: string): Promise<IsSigned> => findIssuer(issuer).keysNow()
  const publisher = { issuers: issuers.map(({ did }) => did), audience, clock, findKeys }
  const endedSessions = createEndedSessionReader(options.endedSessions, publisher)

  const verifyToken = async (token: unknown): Promise<VerifiedToken> => {
    const { did: serviceDid, keysNow } = findTokenIssuer(token)
    const isSigned = await keysNow()
    const now = clock.nowSeconds()
    const verifiedUser = typeof token === 'string' ? verified.get(token) : undefined
    if (verifiedUser !== undefined) {
      assertInForce(verifiedUser.claims, now)
      return verifiedUser
    }
    // `isSigned` ignores the public key below, because it has the issuer's keys.
    const curve = { sha256: pureCurve.sha256, verify: isSigned }
    const expected = { serviceDid, serviceUrl: audience, publicKey: new Uint8Array(), nowSeconds: now }
    const claims = verifyAccessToken(curve, token, expected)
    const did = claims.sub
    const address = isEthrDid(did) ? addressOfDid(did, pureCurve) : undefined
    const user = Object.freeze({ did, sessionId: claims.sid, canonicalDid: canonicalDid(did), address, claims })
    if (typeof token === 'string') verified.set(token, user)
    return user
  }
  const verify = async (token: unknown, waitUntil?: WaitUntil): Promise<VerifiedToken> => {
    const user = await verifyToken(token)
    await endedSessions?.assertActive(user.sessionId, waitUntil)
    return user
  }
  return Object.assign((token: unknown) => verify(token), {
    request: async (request: TokenRequest, { waitUntil }: { waitUntil?: WaitUntil | undefined } = {}) =>
      verify(readToken(request, cookieRule), waitUntil),
    audience
  })
}

/** Name of the cookie with the access token, and origins whose pages may send it in unsafe requests. */
type CookieRule = { cookie: string; trustedOrigins: ReadonlySet<string> }

function parseCookieRule({ audience, cookiePrefix = '', trustedOrigins = [] }: VerifierOptions): CookieRule {
  if (!PREFIXES.includes(cookiePrefix)) throw createConfigError("cookiePrefix: give '', '__Host-' or '__Secure-'")
  if (!Array.isArray(trustedOrigins) || !trustedOrigins.every(isOrigin))
    throw createConfigError('trustedOrigins: give an array of origins such as "https://app.example"')
  const audienceOrigin = parseHttpUrl(audience)?.origin
  const origins = audienceOrigin === undefined ? trustedOrigins : [audienceOrigin, ...trustedOrigins]
  return { cookie: `${cookiePrefix}authorization`, trustedOrigins: new Set(origins) }
}

function isOrigin(value: unknown): value is string {
  return typeof value === 'string' && parseHttpUrl(value)?.origin === value
}

/**
 * Reads the access token of a request. Browsers send cookies automatically, so a cookie counts only if no other site
 * caused the request.
 */
function readToken(request: TokenRequest, { cookie, trustedOrigins }: CookieRule): string {
  const authorization = readHeader(request, 'authorization')
  const token = SCHEME.exec(authorization ?? '')?.[1]
  if (token !== undefined) return token
  const [value, ...others] = listCookieValues(readHeader(request, 'cookie'), cookie)
  if (value === undefined) {
    if (authorization === undefined) throw new DidAuthError('ERR_ACCESS_TOKEN_MISSING')
    const reason = { check: 'Authorization', expected: 'DIDAuth <token> or Bearer <token>' }
    throw new DidAuthError('ERR_ACCESS_TOKEN', { reason })
  }
  const [origin, site, upgrade] = ['origin', 'sec-fetch-site', 'upgrade'].map((name) => readHeader(request, name))
  const headers = { origin, 'sec-fetch-site': site, upgrade }
  assertSameSite({ method: request.method, headers }, trustedOrigins)
  if (others.length > 0) throw new DidAuthError('ERR_DUPLICATE_COOKIE', { reason: { check: 'Cookie', cookie } })
  return value
}
