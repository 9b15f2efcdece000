import type { NextFunction, Request, RequestHandler, Response } from 'express'
import { authenticate } from '../flows/authenticate.js'
import type { Parts } from '../flows/parts.js'
import { guardCsrf } from './guard-csrf.js'
import type { RequestLimits } from './limit-requests.js'
import type { SendError } from './send-error.js'
import { hasTokenCookie, type TokenTransport } from './token-transport.js'

/** What the handlers of this folder are wired with. `parts` resolves once curve and signer are there. */
export interface HttpParts {
  parts: () => Promise<Parts>
  transport: TokenTransport
  limits: RequestLimits
  sendError: SendError
  useCookies: boolean
  trustedOrigins: ReadonlySet<string>
}

/**
 * Lets a request pass with a good access token only: cross-site forgery first, then the token, then the user's quota.
 * It sets `req.user` and `req.auth`.
 *
 * @param countsRequest - whether a passing request counts against the user's quota
 * @throws DidAuthError ERR_CROSS_ORIGIN, ERR_ACCESS_TOKEN…, ERR_TOO_MANY_REQUESTS, ERR_SIGNER, ERR_STORE
 */
export async function passWithDid(http: HttpParts, req: Request, countsRequest: boolean): Promise<void> {
  // A request that carries a header and no cookie is one that a foreign page cannot make.
  if (http.useCookies && (hasTokenCookie(req) || req.headers.authorization === undefined)) {
    guardCsrf(req, http.trustedOrigins)
  }
  const claims = await authenticate(await http.parts(), http.transport.readAccessToken(req))
  // Claims stay the same object while they are remembered: with these, the request has passed a guard of ours already.
  // A WeakSet of requests would say the same, for a hash and work for the garbage collector with each request.
  const isCharged = req.auth?.claims === claims
  if (countsRequest && !isCharged) await http.limits.chargeUser(claims.sub)
  req.user = { did: claims.sub }
  req.auth = { sessionId: claims.sid, claims }
}

/** Makes the middleware for protected routes, which answers every refusal by itself. */
export function requireDidHandler(http: HttpParts): RequestHandler {
  const passOrAnswer = async (req: Request, res: Response, next: NextFunction): Promise<void> => {
    try {
      await passWithDid(http, req, true)
    } catch (error) {
      http.sendError(req, res, error)
      return
    }
    next()
  }
  return (req, res, next) => {
    // What fails now is the application's own: its logger, or what it hung on the response.
    passOrAnswer(req, res, next).catch(next)
  }
}
