import type { NextFunction, Request, RequestHandler, Response } from 'express'
import { assertSessionActive, authenticate } from '../flows/authenticate.js'
import type { Caller, Parts } from '../flows/parts.js'
import type { AuthenticatedUser } from '../ports.js'
import { chargeUser } from '../flows/limits.js'
import { isSafeMethod } from '../protocol/cross-origin.js'
import { guardCsrf, isForeignPage } from './guard-csrf.js'
import type { SendError } from './send-error.js'
import type { TokenTransport } from './token-transport.js'

/**
 * Asserts that a request which the browser may have authenticated by cookies was not made by a page of another site.
 * @throws DidAuthError ERR_CROSS_ORIGIN
 */
export function assertNotForged(
  { transport, trustedOrigins }: Pick<HttpParts, 'transport' | 'trustedOrigins'>,
  req: Request
): void {
  // A foreign page cannot make a request that carries the header and no cookie.
  if (transport.useCookies && (transport.hasTokenCookie(req) || req.headers.authorization === undefined)) {
    guardCsrf(req, trustedOrigins)
  }
}

/** What the handlers of this folder are wired with. `parts` resolves once curve and signer are there. */
export interface HttpParts {
  parts: () => Promise<Parts>
  callerOf: (req: Request) => Caller
  transport: TokenTransport
  sendError: SendError
  trustedOrigins: ReadonlySet<string>
}

/** What a guard asks of a request. */
export interface GuardOptions {
  /**
   * Also asks the store whether the session of the access token was ended: logout and revocation count at once, for one
   * more look into the store. A token without session is refused. Default false.
   */
  checkSession?: boolean | undefined
  /** Lets a request without token pass, with `req.user` undefined. A bad token is still refused. Default false. */
  optional?: boolean | undefined
}

/**
 * Authenticates a request: cross-site forgery first, then the token, then the session where that is asked for.
 * @throws DidAuthError ERR_CROSS_ORIGIN, ERR_ACCESS_TOKEN…, ERR_DUPLICATE_COOKIE, ERR_SESSION_ENDED, ERR_SIGNER,
 * ERR_STORE
 */
export async function authenticateRequest(
  http: HttpParts,
  req: Request,
  { checkSession = false }: GuardOptions = {}
): Promise<AuthenticatedUser> {
  assertNotForged(http, req)
  const parts = await http.parts()
  const user = await authenticate(parts, http.transport.readAccessToken(req))
  if (checkSession) await assertSessionActive(parts, user.claims.sid)
  return user
}

/**
 * Lets a request pass with a good access token only, and counts it against the user's quota. It sets `req.user` and
 * `req.auth`.
 * @throws DidAuthError as `authenticateRequest`, and ERR_TOO_MANY_REQUESTS
 */
export async function passWithDid(http: HttpParts, req: Request, options: GuardOptions): Promise<AuthenticatedUser> {
  const user = await authenticateRequest(http, req, options)
  const { claims, canonicalDid, address } = user
  // Claims stay the same object while they are remembered: with these, the request has passed a guard of ours already.
  // A WeakSet of requests would say the same, for a hash and work for the garbage collector with each request.
  if (req.auth?.claims !== claims) {
    const isForeignRead = isSafeMethod(req.method) && isForeignPage(req, http.trustedOrigins)
    await chargeUser(await http.parts(), canonicalDid, isForeignRead)
  }
  req.user = { did: claims.sub }
  req.auth = { sessionId: claims.sid, canonicalDid, address, claims }
  return user
}

/** Makes a middleware for protected routes. It answers every refusal itself. */
export function requireDidHandler(http: HttpParts, options: GuardOptions): RequestHandler {
  const { optional = false } = options
  const hasNoToken = (req: Request): boolean =>
    req.headers.authorization === undefined && !http.transport.hasTokenCookie(req)

  const passOrAnswer = async (req: Request, res: Response, next: NextFunction): Promise<void> => {
    try {
      await passWithDid(http, req, options)
    } catch (error) {
      http.sendError(req, res, error)
      return
    }
    next()
  }
  return (req, res, next: NextFunction | undefined) => {
    if (next === undefined) {
      throw new TypeError('requireDid is the middleware itself: write app.get(path, requireDid, handler), without ()')
    }
    if (optional && hasNoToken(req)) next()
    // Only the application's own code can fail now: its logger, or its hooks on the response.
    else passOrAnswer(req, res, next).catch(next)
  }
}
