import { DidAuthError, errorStatuses } from '../errors.js'
import type { AccessTokenVerifier } from './access-token-verifier.js'
import type { TokenRequest } from './access-token-verifier.js'

/** The part of an Express request that is used. */
export interface GuardedRequest extends TokenRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  accepts(types: string[]): string | false
}

/** The part of an Express response that is used. */
export interface GuardedResponse {
  statusCode: number
  readonly headersSent: boolean
  setHeader(name: string, value: string): unknown
  end(body: string): unknown
}

// Express prefers what stands first, and axios writes `text/plain` before all that its user adds.
const NAMES_PROBLEM = /(?:^|,)\s*application\/problem\+json\s*(?:,|$)/i

/**
 * Makes a middleware of Express that lets a request pass with a good access token only. It sets `req.user` and
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
  const pass = async (req: GuardedRequest, res: GuardedResponse, next: () => void): Promise<void> => {
    try {
      const { did, ...auth } = await verify.request(req)
      Object.assign(req, { user: { did }, auth })
    } catch (error) {
      if (!(error instanceof DidAuthError)) throw error
      sendRefusal(req, res, error, verify.audience)
      return
    }
    next()
  }
  return (req, res, next) => {
    pass(req, res, next).catch(next)
  }
}

function assertVerifier(verify: { request?: unknown } | undefined): void {
  if (typeof verify?.request === 'function') return
  const message = 'express-did-auth/verify: requireToken needs what accessTokenVerifier returned'
  throw new DidAuthError('ERR_CONFIG', { message })
}

/** As `sendErrorAnswer` of the package does; that one needs Node. */
function sendRefusal(req: GuardedRequest, res: GuardedResponse, error: DidAuthError, audience: string): void {
  if (res.headersSent) return
  const { code, message, retryAfterSeconds = 5 } = error
  const status = errorStatuses[code]
  const isProblem =
    NAMES_PROBLEM.test(String(req.headers.accept ?? '')) ||
    req.accepts(['text/plain', 'application/problem+json']) === 'application/problem+json'
  res.statusCode = status
  if (status === 401) res.setHeader('WWW-Authenticate', `DIDAuth realm="${audience}"`)
  if (status === 503) res.setHeader('Retry-After', String(retryAfterSeconds))
  res.setHeader('Content-Type', `${isProblem ? 'application/problem+json' : 'text/plain'}; charset=utf-8`)
  res.setHeader('X-Content-Type-Options', 'nosniff')
  res.setHeader('Cache-Control', 'no-store')
  res.end(isProblem ? JSON.stringify({ type: 'about:blank', title: message, status, code }) : message)
}
