import type { Settings } from '../config/settings.js'
import { DidAuthError, type DidAuthErrorCode } from '../errors.js'
import type { Tokens } from '../flows/tokens.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import { hasTokenScheme, readHeaderToken, type TokenScheme } from '../protocol/authorization.js'
import { readField } from '../protocol/json.js'
import { COOKIE_ATTRIBUTES, expireCookies, listCookieValues, listStalePaths } from '../protocol/token-cookies.js'
import { emptyAnswer, jsonAnswer } from './answers.js'
import { createNonceHeader, type NonceParts } from './session-binding.js'

/** Number of cookies of one name whose sessions a logout ends. */
const MAX_DUPLICATES = 4

type WithHeaders = Pick<HttpRequest, 'headers'>
type WithCookies = Pick<HttpRequest, 'headers' | 'cookies'>
type WithUrl = Pick<HttpRequest, 'headers' | 'originalUrl'>

/** Reads and answers tokens, see {@link createTokenTransport}. */
export type TokenTransport = ReturnType<typeof createTokenTransport>

/**
 * Creates the transport of tokens: in bodies and `Authorization: DIDAuth <token>`, or in cookies, which browsers send
 * on their own and scripts cannot read. In cookie mode, a request without cookie may use header and body, because not
 * every client is a browser.
 * @see RFC 6265bis, section 4.1.3: the prefix `__Host-` keeps pages of sibling domains from setting the cookies
 */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- its type is what it returns
export function createTokenTransport({ useCookies, cookiePrefix, resourceIssuer }: Settings) {
  const accessCookie = `${cookiePrefix}authorization`
  const refreshCookie = `${cookiePrefix}refresh-token`
  const names = [accessCookie, refreshCookie]
  const schemes: readonly TokenScheme[] = resourceIssuer === undefined ? ['DIDAuth'] : ['DIDAuth', 'Bearer']
  const read = (request: WithCookies, name: string, refusal: DidAuthErrorCode): string | undefined =>
    useCookies ? readCookieToken(request, name, refusal) : undefined
  return {
    useCookies,
    /** Whether a request has a token cookie, which a browser may have sent on its own. */
    hasTokenCookie: (request: WithHeaders): boolean =>
      useCookies && names.some((name) => listCookieValues(request.headers.cookie, name).length > 0),
    /** Returns the first tokens in cookies if two cookies have the same name; undefined if none have. */
    findDuplicates({ headers }: WithHeaders): { accessTokens: string[]; refreshTokens: string[] } | undefined {
      const [accessTokens = [], refreshTokens = []] = names.map((name) => listCookieValues(headers.cookie, name))
      if (!useCookies || Math.max(accessTokens.length, refreshTokens.length) < 2) return undefined
      const keep = (tokens: string[]): string[] => tokens.slice(0, MAX_DUPLICATES)
      return { accessTokens: keep(accessTokens), refreshTokens: keep(refreshTokens) }
    },
    /** Whether a request has a token in `Authorization`, valid or not, which no browser sends on its own. */
    hasTokenHeader: ({ headers }: WithHeaders): boolean => hasTokenScheme(headers.authorization, schemes),
    /**
     * Reads the token of this service. `Bearer` is refused, if {@link readResourceToken} accepts tokens of it.
     * @throws DidAuthError ERR_ACCESS_TOKEN; ERR_ACCESS_TOKEN_MISSING for another scheme; ERR_DUPLICATE_COOKIE
     */
    readAccessToken(request: WithCookies): string | undefined {
      const token = read(request, accessCookie, 'ERR_ACCESS_TOKEN')
      if (token !== undefined) return token
      const { authorization } = request.headers
      // Refuses a `Bearer` of a trusted service without exactly one token.
      readHeaderToken(authorization, schemes)
      return readHeaderToken(authorization, ['DIDAuth'])
    },
    /** Returns the access token of the header, which the client's code knows; undefined if a cookie has the token. */
    readKnownToken: (request: WithCookies): string | undefined =>
      read(request, accessCookie, 'ERR_ACCESS_TOKEN') === undefined
        ? readHeaderToken(request.headers.authorization, ['DIDAuth'])
        : undefined,
    /** Reads the token of another service, where one is trusted. */
    readResourceToken: ({ headers }: WithHeaders): string | undefined =>
      resourceIssuer && readBearerToken(headers.authorization),
    /** @throws DidAuthError ERR_REFRESH_TOKEN, ERR_DUPLICATE_COOKIE */
    readRefreshCookie: (request: WithCookies): string | undefined => read(request, refreshCookie, 'ERR_REFRESH_TOKEN'),
    /**
     * Answers with tokens, and with a nonce for the next device proof.
     * @param user - further fields of the body; in cookie mode they are the whole body
     */
    answerTokens(
      parts: NonceParts,
      { accessToken, refreshToken, refreshTokenSeconds }: Tokens,
      { user, headers: ownHeaders }: { user?: object | undefined; headers?: Record<string, string> | undefined } = {}
    ): HttpAnswer {
      const headers = { ...ownHeaders, ...createNonceHeader(parts) }
      if (!useCookies) return jsonAnswer({ accessToken, refreshToken, ...user }, headers)
      const answer = user === undefined ? emptyAnswer(headers) : jsonAnswer(user, headers)
      const lifetime = `Max-Age=${String(refreshTokenSeconds)}; Path=/; ${formatExpires(refreshTokenSeconds)}`
      const cookies = [
        `${accessCookie}=${accessToken}; ${lifetime}; ${COOKIE_ATTRIBUTES}`,
        `${refreshCookie}=${refreshToken}; ${lifetime}; ${COOKIE_ATTRIBUTES}`
      ]
      return { ...answer, cookies }
    },
    /** Returns an answer that also makes the browser delete the token cookies. */
    clearTokens(answer: HttpAnswer): HttpAnswer {
      return useCookies ? { ...answer, cookies: expireCookies(names, ['/']) } : answer
    },
    /**
     * Returns an answer that makes the browser delete token cookies at the paths of {@link listStalePaths}. A stale
     * cookie at another path hides the one of the login, and a login cannot replace it.
     */
    clearStaleTokens(answer: HttpAnswer, { originalUrl, headers }: WithUrl): HttpAnswer {
      const cookies = expireCookies(names, listStalePaths(originalUrl, headers['sec-fetch-site']))
      return cookies.length === 0 ? answer : { ...answer, cookies }
    }
  }
}

/** Formats the attribute for clients that do not know `Max-Age`. Browsers compare it with their own clock. */
function formatExpires(seconds: number): string {
  return `Expires=${new Date(Date.now() + seconds * 1000).toUTCString()}`
}

/** Reads the token after `Bearer`, which another service issued; undefined for another scheme. */
export function readBearerToken(authorization = ''): string | undefined {
  return /^Bearer +([^ ]+)$/i.exec(authorization)?.[1]
}

function readCookieToken(request: WithCookies, name: string, refusal: DidAuthErrorCode): string | undefined {
  const count = listCookieValues(request.headers.cookie, name).length
  if (count === 0) return undefined
  if (count > 1) throw new DidAuthError('ERR_DUPLICATE_COOKIE', { reason: { check: 'Cookie', cookie: name, count } })
  const value = readField(request.cookies, name)
  // cookie-parser parses a value that starts with `j:` as JSON.
  if (typeof value !== 'string') throw new DidAuthError(refusal)
  return value
}
