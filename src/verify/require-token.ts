import { sendErrorAnswer } from '../error-answer.js'
import { DidAuthError, errorStatuses } from '../errors.js'
import type { AccessTokenVerifier, TokenRequest, VerifiedToken } from './access-token-verifier.js'
import { createConfigError } from './issuer-keys.js'

/** Part of an Express request that the middleware uses. */
export interface GuardedRequest extends TokenRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  accepts(types: string[]): string | false
}

/** Part of an Express response that the middleware uses. */
export interface GuardedResponse {
  statusCode: number
  readonly headersSent: boolean
  setHeader(name: string, value: string): unknown
  end(body: string): unknown
}

/**
 * Creates Express middleware that lets only requests with a valid access token pass. It sets `req.user` and `req.auth`
 * as `requireDid` does. It answers 401 without a valid token, 403 to a cookie in an unsafe request that another site
 * caused, and 503 if the resolver is unavailable.
 *
 * @param verify - the result of `accessTokenVerifier`
 * @throws DidAuthError ERR_CONFIG, at setup, for any other argument
 * @example
 * app.get('/orders', requireToken(verify), (req, res) => res.json(ordersOf(req.auth.canonicalDid)))
 */
export function requireToken(
  verify: AccessTokenVerifier
): (req: GuardedRequest, res: GuardedResponse, next: (error?: unknown) => void) => void {
  assertVerifier(verify)
  return (req, res, next) => {
    const pass = ({ did, ...auth }: VerifiedToken): void => {
      Object.assign(req, { user: { did }, auth })
      next()
    }
    const refuse = (error: unknown): void => {
      if (!(error instanceof DidAuthError)) throw error
      if (res.headersSent) return
      const { code, message: text, retryAfterSeconds } = error
      const refusal = { status: errorStatuses[code], code, text, retryAfterSeconds }
      sendErrorAnswer(req, res, refusal, { serviceUrl: verify.audience })
    }
    verify.request(req).then(pass, refuse).catch(next)
  }
}

function assertVerifier(verify: { request?: unknown } | undefined): void {
  if (typeof verify?.request === 'function') return
  throw createConfigError('requireToken: give the result of accessTokenVerifier')
}
