import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import cookieParser from 'cookie-parser'
import type { Request, Response } from 'express'
import { DidAuthError, type DidAuthErrorCode } from '../errors.js'
import type { Tokens } from '../flows/issue-tokens.js'
import { fieldOf } from '../protocol/json.js'
import type { Body } from './read-request.js'
import { sendEmpty, sendJson } from './send-answer.js'

const COOKIE_ATTRIBUTES = { secure: true, httpOnly: true, sameSite: 'strict', path: '/' } as const
const DID_AUTH_SCHEME = /^DIDAuth +([^ ]+)$/i

/** How tokens travel: in bodies and the Authorization header, or in cookies. */
export interface TokenTransport {
  /** Whether a request carries one of our cookies, so that a browser may have sent it by itself. */
  hasTokenCookie(req: IncomingMessage): boolean
  /** @throws DidAuthError ERR_ACCESS_TOKEN for another scheme, ERR_DUPLICATE_COOKIE */
  readAccessToken(req: IncomingMessage): string | undefined
  /** Reads the body only where no cookie has the token. @throws DidAuthError ERR_DUPLICATE_COOKIE */
  readRefreshToken(req: IncomingMessage, readBody: () => Promise<Body>): Promise<unknown>
  sendTokens(res: Response, tokens: Tokens, headers?: Record<string, string>): void
  /** Makes the browser forget our cookies with whatever is answered. */
  clearTokens(res: Response): void
}

/** Tokens in bodies, the access token in `Authorization: DIDAuth <token>`. */
export const bodyTransport: TokenTransport = {
  hasTokenCookie: () => false,
  readAccessToken: headerToken,
  readRefreshToken: async (_req, readBody) => fieldOf(await readBody(), 'refreshToken'),
  sendTokens: (res, { accessToken, refreshToken }, headers) => {
    sendJson(res, { accessToken, refreshToken }, headers)
  },
  clearTokens() {
    // This transport sets no cookies.
  }
}

/**
 * Tokens in cookies, which the browser sends by itself and no script can read. Where there is no cookie, header and body
 * count: not every client of such a service is a browser.
 *
 * @param prefix - put before both names: `__Host-` keeps pages of sibling domains from setting them
 * @see RFC 6265bis, section 4.1.3
 */
export function cookieTransport(prefix: string): TokenTransport {
  const accessCookie = `${prefix}authorization`
  const refreshCookie = `${prefix}refresh-token`
  return {
    hasTokenCookie: (req) => cookieCount(req, accessCookie) + cookieCount(req, refreshCookie) > 0,
    readAccessToken: (req) => cookieToken(req, accessCookie, 'ERR_ACCESS_TOKEN') ?? headerToken(req),
    readRefreshToken: async (req, readBody) =>
      cookieToken(req, refreshCookie, 'ERR_REFRESH_TOKEN') ?? fieldOf(await readBody(), 'refreshToken'),
    sendTokens: (res, { accessToken, refreshToken, refreshTokenSeconds }, headers) => {
      const attributes = { ...COOKIE_ATTRIBUTES, maxAge: refreshTokenSeconds * 1000 }
      res.cookie(accessCookie, accessToken, attributes)
      res.cookie(refreshCookie, refreshToken, attributes)
      sendEmpty(res, headers)
    },
    clearTokens: (res) => {
      res.clearCookie(accessCookie, COOKIE_ATTRIBUTES)
      res.clearCookie(refreshCookie, COOKIE_ATTRIBUTES)
    }
  }
}

function headerToken(req: IncomingMessage): string | undefined {
  const { authorization } = req.headers
  if (authorization === undefined) return undefined
  const token = DID_AUTH_SCHEME.exec(authorization)?.[1]
  if (token === undefined) {
    throw new DidAuthError('ERR_ACCESS_TOKEN', { reason: { check: 'Authorization', expected: 'DIDAuth <token>' } })
  }
  return token
}

function cookieToken(req: IncomingMessage, name: string, refusal: DidAuthErrorCode): string | undefined {
  const count = cookieCount(req, name)
  if (count === 0) return undefined
  if (count > 1) throw new DidAuthError('ERR_DUPLICATE_COOKIE', { reason: { check: 'Cookie', cookie: name, count } })
  const value = fieldOf(parseCookieHeader(req), name)
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

function cookieCount(req: IncomingMessage, name: string): number {
  const header = req.headers.cookie
  if (header === undefined) return 0
  return header.split(';').filter((pair) => pair.includes('=') && pair.slice(0, pair.indexOf('=')).trim() === name)
    .length
}
