import { pureCurve } from '../adapters/curve-pure.js'
import { RecentEntries } from '../caches.js'
import { DidAuthError } from '../errors.js'
import type { DidAuthInfo } from '../express-types.js'
import { assertInForce, MAX_ACCESS_TOKEN_BYTES, verifyAccessToken } from '../protocol/access-token.js'
import { assertSameSite } from '../protocol/cross-origin.js'
import { addressOfDid, canonicalDid, isDid, isEthrDid } from '../protocol/did.js'
import { parseJwt } from '../protocol/jwt.js'
import { parseHttpUrl } from '../protocol/parse-url.js'
import { systemClock } from '../time.js'
import { createConfigError, createIssuerKeys, type IssuerResolver } from './issuer-keys.js'

const SCHEME = /^(?:DIDAuth|Bearer) +([^ ]+)$/i
const PREFIXES: readonly unknown[] = ['', '__Host-', '__Secure-']

/** Issuers and service whose tokens a verifier accepts. */
export interface VerifierOptions {
  /**
   * `serviceDid` of the service that issues the tokens. A `did:ethr` needs nothing else: it names its key. Several DIDs
   * are accepted while the service replaces its key: the new one and the previous one.
   */
  issuer: string | readonly string[]
  /** `serviceUrl` of that service, letter by letter. */
  audience: string
  /** The keys of an issuer that does not sign with that of its DID: 33 or 65 bytes, or their hexadecimal. */
  publicKeys?: readonly (string | Uint8Array)[] | undefined
  /** Any did-resolver `Resolvable`, in place of keys: the issuer's DID document decides, asked again after 60 s. */
  resolver?: IssuerResolver | undefined
  /** The `cookiePrefix` of the service. Default: none. */
  cookiePrefix?: '' | '__Host-' | '__Secure-' | undefined
  /** Origins in addition to that of `audience` whose pages may make unsafe requests with cookies. */
  trustedOrigins?: readonly string[] | undefined
  /** Clock that tests replace. */
  clock?: { nowSeconds(): number } | undefined
}

/** A request of the web (Workers, Bun, Deno) or of Node. */
export interface TokenRequest {
  readonly method?: string | undefined
  readonly headers:
    { get(name: string): string | null } | Readonly<Record<string, string | readonly string[] | undefined>>
}

/** The user of a verified access token. */
export interface VerifiedToken extends DidAuthInfo {
  /** The user's DID as received at login. Keep accounts by `canonicalDid`. */
  did: string
}

/** Verifies access tokens of one service. */
export interface AccessTokenVerifier {
  /** @throws DidAuthError ERR_ACCESS_TOKEN, ERR_ACCESS_TOKEN_EXPIRED; with a resolver ERR_RESOLVER */
  (token: unknown): Promise<VerifiedToken>
  /**
   * Verifies the access token of a request: `Authorization` with `DIDAuth` or `Bearer`, else the cookie of the service.
   *
   * @throws DidAuthError as above; ERR_ACCESS_TOKEN_MISSING, ERR_DUPLICATE_COOKIE, ERR_CROSS_ORIGIN
   */
  request(request: TokenRequest): Promise<VerifiedToken>
  readonly audience: string
}

/**
 * Makes a verifier of the access tokens that a service of this package issues, for other services. It runs in Node,
 * Workers and browsers, and asks no network unless `resolver` is given. It cannot see that a session was ended: a token
 * is valid until its `exp`, however far ahead the service has set that.
 *
 * @throws DidAuthError ERR_CONFIG
 * @example
 * const verify = accessTokenVerifier({ issuer: 'did:ethr:rsk:0x…', audience: 'https://auth.example.com' })
 * const { did, claims } = await verify(token)
 */
export function accessTokenVerifier(options: VerifierOptions): AccessTokenVerifier {
  const { issuer, audience, clock: given = systemClock } = options
  const dids: readonly unknown[] = Array.isArray(issuer) ? issuer : [issuer]
  if (dids.length === 0 || !dids.every(isDid)) {
    throw createConfigError('issuer: give the DID of the service that issues the tokens')
  }
  if (typeof audience !== 'string' || !audience)
    throw createConfigError('audience: give the serviceUrl of that service')
  if (!/^[\x21\x23-\x5b\x5d-\x7e]+$/.test(audience))
    throw createConfigError('audience: it stands in a header, so give no quote, \\ or space')
  const cookieRule = parseCookieRule(options)
  const clock = { nowSeconds: () => Math.floor(given.nowSeconds()) }
  const verified = new RecentEntries<VerifiedToken>()
  const issuers = dids.map((did) => ({ did, keysNow: createIssuerKeys(did, options, clock, () => verified.clear()) }))

  const findIssuer = (token: unknown): (typeof issuers)[number] => {
    if (issuers.length === 1 && issuers[0] !== undefined) return issuers[0]
    const iss = parseJwt(token, MAX_ACCESS_TOKEN_BYTES)?.payload.iss
    const found = issuers.find(({ did }) => did === iss)
    if (found !== undefined) return found
    throw new DidAuthError('ERR_ACCESS_TOKEN', { reason: { check: 'iss', expected: dids } })
  }

  const verify = async (token: unknown): Promise<VerifiedToken> => {
    const { did: serviceDid, keysNow } = findIssuer(token)
    const isSigned = await keysNow()
    const now = clock.nowSeconds()
    const seenBefore = typeof token === 'string' ? verified.get(token) : undefined
    if (seenBefore !== undefined) {
      assertInForce(seenBefore.claims, now)
      return seenBefore
    }
    // `isSigned` knows the key.
    const curve = { sha256: pureCurve.sha256, verify: isSigned }
    const expected = { serviceDid, serviceUrl: audience, publicKey: new Uint8Array(), nowSeconds: now }
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

/** The name of the cookie with the access token, and whose pages may send it. */
type CookieRule = { cookie: string; trustedOrigins: ReadonlySet<string> }

function parseCookieRule({ audience, cookiePrefix = '', trustedOrigins = [] }: VerifierOptions): CookieRule {
  if (!PREFIXES.includes(cookiePrefix)) throw createConfigError("cookiePrefix: give '', '__Host-' or '__Secure-'")
  if (!Array.isArray(trustedOrigins) || !trustedOrigins.every(isOrigin))
    throw createConfigError('trustedOrigins: give an array of origins such as "https://app.example"')
  const own = parseHttpUrl(audience)?.origin
  const origins = own === undefined ? trustedOrigins : [own, ...trustedOrigins]
  return { cookie: `${cookiePrefix}authorization`, trustedOrigins: new Set(origins) }
}

function isOrigin(value: unknown): value is string {
  return typeof value === 'string' && parseHttpUrl(value)?.origin === value
}

/** Reads a request's access token. Browsers send cookies by themselves: one counts unless another site caused it. */
function readToken(request: TokenRequest, { cookie, trustedOrigins }: CookieRule): string {
  const authorization = readHeader(request, 'authorization')
  const token = SCHEME.exec(authorization ?? '')?.[1]
  if (token !== undefined) return token
  const [value, ...others] = listCookies(cookie, readHeader(request, 'cookie') ?? '')
  if (value === undefined) {
    if (authorization === undefined) throw new DidAuthError('ERR_ACCESS_TOKEN_MISSING')
    const reason = { check: 'Authorization', expected: 'DIDAuth <token> or Bearer <token>' }
    throw new DidAuthError('ERR_ACCESS_TOKEN', { reason })
  }
  const headers = { origin: readHeader(request, 'origin'), 'sec-fetch-site': readHeader(request, 'sec-fetch-site') }
  assertSameSite({ method: request.method, headers }, trustedOrigins)
  if (others.length > 0) throw new DidAuthError('ERR_DUPLICATE_COOKIE', { reason: { check: 'Cookie', cookie } })
  return value
}

function readHeader({ headers }: TokenRequest, name: string): string | undefined {
  if (isWebHeaders(headers)) return headers.get(name) ?? undefined
  const value = headers[name]
  return typeof value === 'string' ? value : value?.join(', ')
}

function isWebHeaders(headers: TokenRequest['headers']): headers is { get(name: string): string | null } {
  return typeof headers.get === 'function'
}

function listCookies(name: string, header: string): string[] {
  return header.split(';').flatMap((pair) => {
    const [key = '', ...value] = pair.split('=')
    return key.trim() === name && value.length > 0 ? [value.join('=').trim()] : []
  })
}
