import type { Settings } from '../config/settings.js'
import { DidAuthError, type DidAuthErrorCode } from '../errors.js'
import type { PresentedProof } from '../flows/device-binding.js'
import { issueNonce } from '../flows/nonces.js'
import type { Parts } from '../flows/parts.js'
import type { Tokens } from '../flows/tokens.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import { readField } from '../protocol/json.js'
import { parseHttpUrl, parseUrl } from '../protocol/parse-url.js'
import { emptyAnswer, jsonAnswer } from './answers.js'

const COOKIE_ATTRIBUTES = 'HttpOnly; Secure; SameSite=Strict'

/** Header that gives clients a nonce for their next device proofs. @see RFC 9449, section 8 */
export const NONCE_HEADER = 'DPoP-Nonce'

const DID_AUTH_SCHEME = /^DIDAuth +([^ ]+)$/i

type WithHeaders = Pick<HttpRequest, 'headers'>
type WithCookies = Pick<HttpRequest, 'headers' | 'cookies'>

type NonceParts = Pick<Parts, 'settings' | 'random' | 'clock'>

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
  const read = (request: WithCookies, name: string, refusal: DidAuthErrorCode): string | undefined =>
    useCookies ? readCookieToken(request, name, refusal) : undefined
  return {
    useCookies,
    /** Whether a request has a token cookie, which a browser may have sent on its own. */
    hasTokenCookie: (request: WithHeaders): boolean =>
      useCookies && countCookies(request, accessCookie) + countCookies(request, refreshCookie) > 0,
    /** @throws DidAuthError ERR_ACCESS_TOKEN for another scheme, ERR_DUPLICATE_COOKIE */
    readAccessToken: (request: WithCookies): string | undefined =>
      read(request, accessCookie, 'ERR_ACCESS_TOKEN') ?? readHeaderToken(request),
    /** Returns the access token of the header, which the client's code knows; undefined if a cookie has the token. */
    readKnownToken: (request: WithCookies): string | undefined =>
      read(request, accessCookie, 'ERR_ACCESS_TOKEN') === undefined ? readHeaderToken(request) : undefined,
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
      if (!useCookies) return answer
      const expired = `Path=/; Expires=${new Date(0).toUTCString()}; ${COOKIE_ATTRIBUTES}`
      return { ...answer, cookies: [`${accessCookie}=; ${expired}`, `${refreshCookie}=; ${expired}`] }
    }
  }
}

/**
 * Reads the device proof of a request; undefined if it has none. A proxy may remove the path of `serviceUrl` or a part
 * of it, so the proof may name the path with it or without.
 */
export function readDeviceProof(
  { settings }: { settings: Pick<Settings, 'serviceUrl' | 'trustedOrigins'> },
  request: HttpRequest
): PresentedProof | undefined {
  const proof = request.headers.dpop
  if (proof === undefined) return undefined
  const { method, originalUrl, mountPath } = request
  const path = normalizePath(originalUrl)
  const servicePath = (parseHttpUrl(settings.serviceUrl)?.pathname ?? '').replace(/\/+$/, '')
  const paths = [path, servicePath + path]
  // Express ignores case in mount paths.
  const hasMountPath = servicePath.toLowerCase().endsWith(mountPath.toLowerCase())
  if (hasMountPath) paths.push(servicePath + path.slice(mountPath.length))
  return { proof, method, origins: settings.trustedOrigins, paths }
}

/** Returns the header with a new nonce for device proofs; no header if logins bind no sessions. */
export function createNonceHeader(parts: NonceParts): Readonly<Record<string, string>> {
  const { deviceBinding } = parts.settings
  return deviceBinding.mode === 'off' ? {} : { [NONCE_HEADER]: issueNonce(parts, deviceBinding).nonce }
}

/** Returns the path of a request in the spelling of the URL Standard, without query; empty if it is no path. */
function normalizePath(originalUrl: string): string {
  return parseUrl(`http://host${originalUrl}`)?.pathname ?? ''
}

/** Formats the attribute for clients that do not know `Max-Age`. Browsers compare it with their own clock. */
function formatExpires(seconds: number): string {
  return `Expires=${new Date(Date.now() + seconds * 1000).toUTCString()}`
}

/** Reads the token after `Bearer`, which another service issued; undefined for another scheme. */
export function readBearerToken(authorization = ''): string | undefined {
  return /^Bearer +([^ ]+)$/i.exec(authorization)?.[1]
}

function readHeaderToken({ headers }: WithHeaders): string | undefined {
  const { authorization } = headers
  if (authorization === undefined) return undefined
  const token = DID_AUTH_SCHEME.exec(authorization)?.[1]
  if (token !== undefined) return token
  throw new DidAuthError('ERR_ACCESS_TOKEN', { reason: { check: 'Authorization', expected: 'DIDAuth <token>' } })
}

function readCookieToken(request: WithCookies, name: string, refusal: DidAuthErrorCode): string | undefined {
  const count = countCookies(request, name)
  if (count === 0) return undefined
  if (count > 1) throw new DidAuthError('ERR_DUPLICATE_COOKIE', { reason: { check: 'Cookie', cookie: name, count } })
  const value = readField(request.cookies, name)
  // cookie-parser parses a value that starts with `j:` as JSON.
  if (typeof value !== 'string') throw new DidAuthError(refusal)
  return value
}

function countCookies({ headers: { cookie } }: WithHeaders, name: string): number {
  if (cookie === undefined) return 0
  return cookie.split(';').filter((pair) => pair.includes('=') && pair.slice(0, pair.indexOf('=')).trim() === name)
    .length
}
