import { sendErrorAnswer } from '../error-answer.js'
import { assertAllowed, assertOptions, type AllowUser } from '../did-auth-info.js'
import { DidAuthError, errorStatuses, type DidAuthErrorCode } from '../errors.js'
import { parseHttpUrl } from '../protocol/parse-url.js'
import { expireCookies, listStalePaths } from '../protocol/token-cookies.js'
import type { AccessTokenVerifier, VerifiedToken } from './access-token-verifier.js'
import { createConfigError } from './issuer-keys.js'
import type { ResourceTokenVerifier } from './resource-token-verifier.js'
import { readHeader, type TokenRequest } from './token-request.js'

/** Part of an Express request that the middleware uses. */
export interface GuardedRequest extends TokenRequest {
  /** Path and query as the client sent them. */
  readonly originalUrl?: string | undefined
  /** Headers by lower-case names. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** Returns the type that the client prefers; false if it accepts none. */
  accepts(types: string[]): string | false
}

/** Part of an Express response that the middleware uses. */
export interface GuardedResponse {
  /** HTTP status, which the middleware sets. */
  statusCode: number
  /** Whether a response was already sent. */
  readonly headersSent: boolean
  /** Sets a header of the response. */
  setHeader(name: string, value: string | string[]): unknown
  /** Returns a header that the application has set. */
  getHeader?(name: string): unknown
  /** Sends the response with this body. */
  end(body: string): unknown
}

/** Options of {@link requireToken}. */
export interface RequireTokenOptions {
  /**
   * URL of the metadata of this resource, as `protectedResource` returns it. A 401 then names it in `WWW-Authenticate`
   * with the scheme `Bearer`, so that OAuth and MCP clients find the service that issues tokens (RFC 9728).
   */
  resourceMetadata?: string | undefined
  /** Decides whether the user may make the request. Anything but `true` is 403 ERR_FORBIDDEN. Default: all may. */
  allow?: AllowUser
}

const optionNames: Readonly<Record<keyof RequireTokenOptions, true>> = { resourceMetadata: true, allow: true }

/**
 * Creates Express middleware that lets only requests with a valid access token pass. It sets `req.user` and `req.auth`
 * as `requireDid` does. It answers 401 without a valid token, 403 to a cookie in an unsafe request that another site
 * caused and to a user whom `allow` refuses, and 503 if the resolver, the issuer's keys or its list of ended sessions
 * are unavailable.
 *
 * @param verify - the result of `accessTokenVerifier` or `resourceTokenVerifier`
 * @throws DidAuthError ERR_CONFIG, at setup, for any other argument; TypeError for an unknown option
 * @example
 * app.get('/orders', requireToken(verify), (req, res) => res.json(ordersOf(req.auth.canonicalDid)))
 */
export function requireToken(
  verify: AccessTokenVerifier | ResourceTokenVerifier,
  options: RequireTokenOptions = {}
): (req: GuardedRequest, res: GuardedResponse, next: (error?: unknown) => void) => void {
  assertVerifier(verify)
  assertOptions(options, optionNames)
  const { resourceMetadata, allow } = options
  if (resourceMetadata !== undefined && !isQuotableUrl(resourceMetadata))
    throw createConfigError('requireToken: give resourceMetadata as an http(s) URL')
  return (req, res, next) => {
    const verifyRequest = async (): Promise<VerifiedToken> => {
      const token = await verify.request(req)
      await assertAllowed(allow, token)
      return token
    }
    const pass = ({ did, ...auth }: VerifiedToken): void => {
      Object.assign(req, { user: { did }, auth })
      next()
    }
    const refuse = (error: unknown): void => {
      if (!(error instanceof DidAuthError)) throw error
      if (res.headersSent) return
      const { code, message: text, retryAfterSeconds } = error
      const refusal = { status: errorStatuses[code], code, text, retryAfterSeconds }
      const challenge = resourceMetadata === undefined ? undefined : createChallenge(resourceMetadata, code)
      if (code === 'ERR_DUPLICATE_COOKIE') deleteCookies(req, res, String(error.reason?.cookie))
      sendErrorAnswer(req, res, refusal, { serviceUrl: verify.audience, challenge })
    }
    verifyRequest().then(pass, refuse).catch(next)
  }
}

/** Deletes the cookies of the service at each path from which the browser may have sent a stale one. */
function deleteCookies(req: GuardedRequest, res: GuardedResponse, accessCookie: string): void {
  const names = [accessCookie, accessCookie.replace(/authorization$/, 'refresh-token')]
  const expired = expireCookies(names, listStalePaths(req.originalUrl ?? '/', readHeader(req, 'sec-fetch-site')))
  const others = [res.getHeader?.('Set-Cookie') ?? []].flat().map(String)
  if (expired.length > 0) res.setHeader('Set-Cookie', [...others, ...expired])
}

function assertVerifier(verify: { request?: unknown } | undefined): void {
  if (typeof verify?.request === 'function') return
  throw createConfigError('requireToken: give the result of accessTokenVerifier or resourceTokenVerifier')
}

/** Whether a value is a URL that can be a quoted string in a header. @see RFC 9110, section 5.6.4 */
function isQuotableUrl(value: unknown): boolean {
  return typeof value === 'string' && /^[\x21\x23-\x5b\x5d-\x7e]+$/.test(value) && parseHttpUrl(value) !== undefined
}

/**
 * Returns the challenge of a 401. A request without token gets no error.
 * @see RFC 9728, section 5.1; RFC 6750, section 3
 */
function createChallenge(resourceMetadata: string, code: DidAuthErrorCode): string {
  const error = code === 'ERR_ACCESS_TOKEN_MISSING' ? '' : 'error="invalid_token", '
  return `Bearer ${error}resource_metadata="${resourceMetadata}"`
}
