import { sendErrorAnswer } from '../error-answer.js'
import { DidAuthError, errorStatuses } from '../errors.js'
import type { AccessTokenVerifier, TokenRequest, VerifiedToken } from './access-token-verifier.js'
import { createConfigError } from './issuer-keys.js'

/** The used part of an Express request. */
export interface GuardedRequest extends TokenRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  accepts(types: string[]): string | false
}

/** The used part of an Express response. */
export interface GuardedResponse {
  statusCode: number
  readonly headersSent: boolean
  setHeader(name: string, value: string): unknown
  end(body: string): unknown
}

/**
 * Makes a middleware of Express that lets a request pass only with a valid access token. It sets `req.user` and
 * `req.auth` as `requireDid` does, and answers refusals like it: 401, 403 for a cookie that another site made the
 * browser send, 503.
 *
 * @throws DidAuthError ERR_CONFIG, at setup, for what `accessTokenVerifier` did not make
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
  throw createConfigError('requireToken needs what accessTokenVerifier returned')
}
