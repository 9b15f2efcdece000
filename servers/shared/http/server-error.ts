import { DidAuthError, errorStatuses } from 'express-did-auth'
import type { Request, Response } from 'express'
import type { Logger } from 'pino'
import { describeError } from '../watch/describe-error.js'

/**
 * What relay and vault refuse beyond the library's own codes: status and fixed text. Codes are stable, as the library's.
 */
export const serverErrors = {
  ERR_PATH: [400, 'Malformed path'],
  ERR_SHAPE: [400, 'Invalid request'],
  ERR_CONTENT: [400, 'Invalid content'],
  ERR_KEY: [400, 'Invalid key'],
  ERR_RESERVED_KEY: [400, 'Reserved key'],
  ERR_NOT_FOUND: [404, 'Not found'],
  ERR_CONTENT_TOO_LARGE: [413, 'Content too large'],
  ERR_NODE_NONSENSE: [502, 'IPFS node answered nonsense'],
  ERR_CONTENT_LOST: [502, 'Content lost'],
  ERR_NODE_AWAY: [503, 'IPFS node unavailable, try again'],
  ERR_NODE_SLOW: [504, 'IPFS node too slow, try again'],
  ERR_STORAGE_FULL: [507, 'Storage full']
} as const satisfies Record<string, readonly [number, string]>

export type ServerErrorCode = keyof typeof serverErrors

export interface ServerErrorOptions {
  /** Follows the fixed text: numbers, such as a maximum. Never anything of the request. */
  detail?: string
  /** For the log only. */
  cause?: unknown
  /** Whole seconds after which a retry makes sense. */
  retryAfterSeconds?: number
}

/** What relay and vault refuse, told apart by `code`. */
export class ServerError extends Error {
  override readonly name = 'ServerError'
  readonly code: ServerErrorCode
  readonly status: number
  readonly retryAfterSeconds: number | undefined

  constructor(code: ServerErrorCode, { detail, cause, retryAfterSeconds }: ServerErrorOptions = {}) {
    const [status, text] = serverErrors[code]
    super(detail === undefined ? text : `${text}: ${detail}`, cause === undefined ? undefined : { cause })
    this.code = code
    this.status = status
    this.retryAfterSeconds = retryAfterSeconds
  }
}

/** Answers an error; never throws. */
export type SendError = (req: Request, res: Response, error: unknown) => void

const DEFAULT_RETRY_AFTER_SECONDS = 5

/**
 * Makes the function that answers every error of relay and vault as the library answers its own: a fixed text, or RFC
 * 9457 where the client asks for it. What is unforeseen is a 500 without text, with its cause in the log only.
 */
export function errorSender(serviceUrl: string, log: Logger): SendError {
  return (req, res, thrown) => {
    const error =
      thrown instanceof ServerError || thrown instanceof DidAuthError
        ? thrown
        : new DidAuthError('ERR_INTERNAL', { cause: thrown })
    const status = error instanceof ServerError ? error.status : errorStatuses[error.code]
    if (status >= 500) {
      log.error({ event: 'request-failed', reason: error.code, ...describeError(error.cause) }, 'request failed')
    }
    if (res.headersSent || res.destroyed) {
      res.destroy()
      return
    }
    if (status === 401) res.setHeader('WWW-Authenticate', `DIDAuth realm="${serviceUrl}"`)
    if (status === 429 || status === 503 || status === 504) {
      res.setHeader('Retry-After', String(Math.ceil(error.retryAfterSeconds ?? DEFAULT_RETRY_AFTER_SECONDS)))
    }
    const isProblem = req.accepts(['text/plain', 'application/problem+json']) === 'application/problem+json'
    const problem = { type: 'about:blank', title: error.message, status, code: error.code }
    const body = Buffer.from(isProblem ? JSON.stringify(problem) : error.message)
    res.writeHead(status, {
      'Content-Type': isProblem ? 'application/problem+json; charset=utf-8' : 'text/plain; charset=utf-8',
      'Content-Length': body.length,
      'X-Content-Type-Options': 'nosniff',
      'Cache-Control': 'no-store'
    })
    res.end(body)
  }
}
