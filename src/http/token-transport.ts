import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import cookieParser from 'cookie-parser'
import type { Request, Response } from 'express'
import type { Settings } from '../config/settings.js'
import { DidAuthError, type DidAuthErrorCode } from '../errors.js'
import type { Tokens } from '../flows/issue-tokens.js'
import { readField } from '../protocol/json.js'
import { sendEmpty, sendJson } from './send-answer.js'

const COOKIE_ATTRIBUTES = { secure: true, httpOnly: true, sameSite: 'strict', path: '/' } as const

const DID_AUTH_SCHEME = /^DIDAuth +([^ ]+)$/i

/** Reads and sends tokens, see {@link createTokenTransport}. */
export type TokenTransport = ReturnType<typeof createTokenTransport>

/**
 * How tokens travel: in bodies and `Authorization: DIDAuth <token>`, or in cookies, which the browser sends by itself
 * and no script can read. Where there is no cookie, header and body count: not every client of such a service is a
 * browser.
 * @see RFC 6265bis, section 4.1.3: `__Host-` before both names keeps pages of sibling domains from setting them
 */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- its type is what it returns
export function createTokenTransport({ useCookies, cookiePrefix, resourceIssuer }: Settings) {
  const accessCookie = `${cookiePrefix}authorization`
  const refreshCookie = `${cookiePrefix}refresh-token`
  const read = (req: IncomingMessage, name: string, refusal: DidAuthErrorCode): string | undefined =>
    useCookies ? readCookieToken(req, name, refusal) : undefined
  return {
    useCookies,
    /** Whether a request carries one of our cookies, so that a browser may have sent it by itself. */
    hasTokenCookie: (req: IncomingMessage): boolean =>
      useCookies && countCookies(req, accessCookie) + countCookies(req, refreshCookie) > 0,
    /** @throws DidAuthError ERR_ACCESS_TOKEN for another scheme, ERR_DUPLICATE_COOKIE */
    readAccessToken: (req: IncomingMessage): string | undefined =>
      read(req, accessCookie, 'ERR_ACCESS_TOKEN') ?? readHeaderToken(req),
    /** The token of another service, where one is trusted. */
    readResourceToken: ({ headers }: IncomingMessage): string | undefined =>
      resourceIssuer && readBearerToken(headers.authorization),
    /** @throws DidAuthError ERR_REFRESH_TOKEN, ERR_DUPLICATE_COOKIE */
    readRefreshCookie: (req: IncomingMessage): string | undefined => read(req, refreshCookie, 'ERR_REFRESH_TOKEN'),
    /** @param user - further fields of the body; in cookie mode they are all of it */
    sendTokens(res: Response, tokens: Tokens, headers?: Record<string, string>, user?: object): void {
      const { accessToken, refreshToken, refreshTokenSeconds } = tokens
      if (!useCookies) {
        sendJson(res, { accessToken, refreshToken, ...user }, headers)
        return
      }
      const attributes = { ...COOKIE_ATTRIBUTES, maxAge: refreshTokenSeconds * 1000 }
      res.cookie(accessCookie, accessToken, attributes)
      res.cookie(refreshCookie, refreshToken, attributes)
      if (user === undefined) sendEmpty(res, headers)
      else sendJson(res, user, headers)
    },
    /** Makes the browser forget our cookies with whatever is answered. */
    clearTokens(res: Response): void {
      if (!useCookies) return
      res.clearCookie(accessCookie, COOKIE_ATTRIBUTES)
      res.clearCookie(refreshCookie, COOKIE_ATTRIBUTES)
    }
  }
}

/** Reads the token after `Bearer`: one of another service, where one is trusted. */
export function readBearerToken(authorization = ''): string | undefined {
  return /^Bearer +([^ ]+)$/i.exec(authorization)?.[1]
}

function readHeaderToken(req: IncomingMessage): string | undefined {
  const { authorization } = req.headers
  if (authorization === undefined) return undefined
  const token = DID_AUTH_SCHEME.exec(authorization)?.[1]
  if (token !== undefined) return token
  throw new DidAuthError('ERR_ACCESS_TOKEN', { reason: { check: 'Authorization', expected: 'DIDAuth <token>' } })
}

function readCookieToken(req: IncomingMessage, name: string, refusal: DidAuthErrorCode): string | undefined {
  const count = countCookies(req, name)
  if (count === 0) return undefined
  if (count > 1) throw new DidAuthError('ERR_DUPLICATE_COOKIE', { reason: { check: 'Cookie', cookie: name, count } })
  const value = readField(parseCookieHeader(req), name)
  // cookie-parser parses a value that starts with `j:` as JSON.
  if (typeof value !== 'string') throw new DidAuthError(refusal)
  return value
}

const parseCookies = cookieParser()

/** Runs cookie-parser on a shim: on the request itself it would replace the cookies of the application's own parser. */
function parseCookieHeader({ headers }: IncomingMessage): unknown {
  const shim: { headers: IncomingHttpHeaders; cookies?: unknown } = { headers }
  // eslint-disable-next-line @typescript-eslint/no-unsafe-class-instance-assignment -- it reads headers.cookie only
  parseCookies(shim as Request, undefined as unknown as Response, () => undefined)
  return shim.cookies
}

function countCookies(req: IncomingMessage, name: string): number {
  const header = req.headers.cookie
  if (header === undefined) return 0
  return header.split(';').filter((pair) => pair.includes('=') && pair.slice(0, pair.indexOf('=')).trim() === name)
    .length
}
