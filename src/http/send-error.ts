import { STATUS_CODES } from 'node:http'
import type { Request, Response } from 'express'
import { DidAuthError, errorTexts, type DidAuthErrorCode } from '../errors.js'
import type { Logger } from '../ports.js'
import { describeCause } from './describe-cause.js'

/**
 * The HTTP status of each code.
 *
 * 401 is what a client throws its tokens away for, so it stands for refused proofs alone: bad JSON, limits and outages
 * have their own.
 */
export const errorStatuses: Record<DidAuthErrorCode, number> = {
  ERR_CONFIG: 500,
  ERR_REQUEST: 401,
  ERR_JSON: 400,
  ERR_TOO_LARGE: 413,
  ERR_CROSS_ORIGIN: 403,
  ERR_TOO_MANY_REQUESTS: 429,
  ERR_DID: 401,
  ERR_DID_UNSUPPORTED: 401,
  ERR_SIGNATURE: 401,
  ERR_CHALLENGE: 401,
  ERR_CHALLENGE_EXPIRED: 401,
  ERR_CHALLENGE_USED: 401,
  ERR_CREDENTIAL: 401,
  ERR_CREDENTIAL_EXPIRED: 401,
  ERR_CREDENTIAL_ISSUER: 401,
  ERR_DISCLOSURE_MISSING: 401,
  ERR_BUSINESS_LOGIC: 401,
  ERR_ACCESS_TOKEN_MISSING: 401,
  ERR_ACCESS_TOKEN: 401,
  ERR_ACCESS_TOKEN_EXPIRED: 401,
  ERR_REFRESH_TOKEN: 401,
  ERR_REFRESH_TOKEN_REUSED: 401,
  ERR_BUSY: 503,
  ERR_STORE: 503,
  ERR_RESOLVER: 503,
  ERR_SIGNER: 503,
  ERR_BUSINESS_LOGIC_TIMEOUT: 503,
  ERR_INTERNAL: 500
}

const DEFAULT_RETRY_AFTER_SECONDS = 5

/** Answers a request with an error. */
export type SendError = (req: Request, res: Response, error: unknown) => void

/**
 * Makes the function that answers every error: a fixed text, or RFC 9457 where the client asks for it, and nothing of
 * what went wrong inside. What is no {@link DidAuthError} is a 500 without text, with its cause in the log only.
 */
export function errorSender(serviceUrl: string, logger: Logger): SendError {
  return (req, res, thrown) => {
    const error = thrown instanceof DidAuthError ? thrown : new DidAuthError('ERR_INTERNAL', { cause: thrown })
    const status = errorStatuses[error.code]
    if (status >= 500) {
      logger.error(
        { event: 'request-failed', code: error.code, cause: describeCause(error.cause) },
        errorTexts[error.code]
      )
    }
    if (res.headersSent || res.destroyed) return
    if (status === 401) res.setHeader('WWW-Authenticate', `DIDAuth realm="${serviceUrl}"`)
    if (status === 429 || status === 503) {
      res.setHeader('Retry-After', String(Math.ceil(error.retryAfterSeconds ?? DEFAULT_RETRY_AFTER_SECONDS)))
    }
    const isProblem = req.accepts(['text/plain', 'application/problem+json']) === 'application/problem+json'
    const problem = { type: 'about:blank', title: error.message, status, code: error.code }
    const body = Buffer.from(isProblem ? JSON.stringify(problem) : error.message)
    res.writeHead(status, STATUS_CODES[status], {
      'Content-Type': isProblem ? 'application/problem+json; charset=utf-8' : 'text/plain; charset=utf-8',
      'Content-Length': body.length,
      'X-Content-Type-Options': 'nosniff',
      'Cache-Control': 'no-store'
    })
    res.end(body)
  }
}
