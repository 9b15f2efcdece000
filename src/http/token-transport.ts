import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import cookieParser from 'cookie-parser'
import type { Request, Response } from 'express'
import { DidAuthError, type DidAuthErrorCode } from '../errors.js'
import type { Tokens } from '../flows/issue-tokens.js'
import { fieldOf } from '../protocol/json.js'
import type { Body } from './read-request.js'
import { sendEmpty, sendJson } from './send-answer.js'

const ACCESS_COOKIE = 'authorization'
const REFRESH_COOKIE = 'refresh-token'
const COOKIE_ATTRIBUTES = { secure: true, httpOnly: true, sameSite: 'strict', path: '/' } as const
const DID_AUTH_SCHEME = /^DIDAuth +([^ ]+)$/i

/** How tokens travel: in bodies and the Authorization header, or in cookies. */
export interface TokenTransport {
  /** @throws DidAuthError ERR_ACCESS_TOKEN when there are two */
  readAccessToken(req: IncomingMessage): string | undefined
  /** @throws DidAuthError ERR_REFRESH_TOKEN when there are two */
  readRefreshToken(req: IncomingMessage, body: Body): unknown
  sendTokens(res: Response, tokens: Tokens): void
  sendLoggedOut(res: Response): void
}

/** Tokens in bodies, the access token in `Authorization: DIDAuth <token>`. */
export const bodyTransport: TokenTransport = {
  readAccessToken: headerToken,
  readRefreshToken: (_req, body) => fieldOf(body, 'refreshToken'),
  sendTokens: (res, tokens) => {
    sendJson(res, tokens)
  },
  sendLoggedOut: sendEmpty
}

/**
 * Tokens in cookies, which the browser sends by itself and no script can read. Where there is no cookie, header and body
 * count: not every client of such a service is a browser.
 *
 * @param maxAgeSeconds - validity of the refresh token
 */
export function cookieTransport(maxAgeSeconds: number): TokenTransport {
  const attributes = { ...COOKIE_ATTRIBUTES, maxAge: maxAgeSeconds * 1000 }
  return {
    readAccessToken: (req) => cookieToken(req, ACCESS_COOKIE, 'ERR_ACCESS_TOKEN') ?? headerToken(req),
    readRefreshToken: (req, body) =>
      cookieToken(req, REFRESH_COOKIE, 'ERR_REFRESH_TOKEN') ?? fieldOf(body, 'refreshToken'),
    sendTokens: (res, tokens) => {
      res.cookie(ACCESS_COOKIE, tokens.accessToken, attributes)
      res.cookie(REFRESH_COOKIE, tokens.refreshToken, attributes)
      sendEmpty(res)
    },
    sendLoggedOut: (res) => {
      res.clearCookie(ACCESS_COOKIE, COOKIE_ATTRIBUTES)
      res.clearCookie(REFRESH_COOKIE, COOKIE_ATTRIBUTES)
      sendEmpty(res)
    }
  }
}

/** Whether a request carries one of our cookies, so that a browser may have sent it unasked. */
export function hasTokenCookie(req: IncomingMessage): boolean {
  return cookieCount(req, ACCESS_COOKIE) + cookieCount(req, REFRESH_COOKIE) > 0
}

function headerToken(req: IncomingMessage): string | undefined {
  const { authorization } = req.headers
  if (authorization === undefined) return undefined
  const token = DID_AUTH_SCHEME.exec(authorization)?.[1]
  if (token === undefined) throw new DidAuthError('ERR_ACCESS_TOKEN')
  return token
}

function cookieToken(req: IncomingMessage, name: string, refusal: DidAuthErrorCode): string | undefined {
  const count = cookieCount(req, name)
  if (count === 0) return undefined
  if (count > 1) throw new DidAuthError(refusal)
  const value = fieldOf(parseCookieHeader(req), name)
  // cookie-parser turns a value that starts with `j:` into whatever JSON it holds.
  if (typeof value !== 'string') throw new DidAuthError(refusal)
  return value
}

const parseCookies = cookieParser()

/** Runs cookie-parser on a shim: on the request itself it would take the place of the application's own. */
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
