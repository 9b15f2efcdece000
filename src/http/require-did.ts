import type { RequestHandler } from 'express'
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
 * Makes the middleware that lets a request pass with a good access token only: cross-site forgery, then the token, then
 * the user's quota. It sets `req.user` and `req.auth`, and answers every refusal by itself.
 *
 * @param countsRequests - whether passing requests count against the user's quota
 */
export function requireDidHandler(http: HttpParts, countsRequests: boolean): RequestHandler {
  return (req, res, next) => {
    const pass = async (): Promise<void> => {
      // A request that carries a header and no cookie is one that a foreign page cannot make.
      if (http.useCookies && (hasTokenCookie(req) || req.headers.authorization === undefined)) {
        guardCsrf(req, http.trustedOrigins)
      }
      const claims = await authenticate(await http.parts(), http.transport.readAccessToken(req))
      if (countsRequests) await http.limits.chargeUser(claims.sub)
      req.user = { did: claims.sub }
      req.auth = { sessionId: claims.sid, claims }
    }
    pass()
      .then(
        () => {
          next()
        },
        (error: unknown) => {
          http.sendError(req, res, error)
        }
      )
      .catch(next)
  }
}
