import { DidAuthError, errorStatuses, sendErrorAnswer } from 'express-did-auth'
import type { Request, Response } from 'express'
import type { Logger } from 'pino'
import { describeError } from '../observability/error-fields.js'

/**
 * What relay and vault refuse beyond the library's own codes: status and fixed text. Codes are stable, as the library's.
 */
export const serverErrors = {
  ERR_PATH: [400, 'Malformed path'],
  ERR_INVALID_REQUEST: [400, 'Invalid request'],
  ERR_CONTENT: [400, 'Invalid content'],
  ERR_KEY: [400, 'Invalid key'],
  ERR_RESERVED_KEY: [400, 'Reserved key'],
  ERR_NOT_FOUND: [404, 'Not found'],
  ERR_PRECONDITION: [412, 'Precondition failed'],
  ERR_CONTENT_TOO_LARGE: [413, 'Content too large'],
  ERR_TAKEN_DOWN: [451, 'Taken down'],
  ERR_IPFS_BAD_RESPONSE: [502, 'Bad response from the IPFS node'],
  ERR_CONTENT_MISSING: [502, 'Content missing'],
  ERR_STORAGE: [503, 'Storage unavailable, try again'],
  ERR_IPFS_UNAVAILABLE: [503, 'IPFS node unavailable, try again'],
  ERR_IPFS_TIMEOUT: [504, 'IPFS node timed out, try again'],
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
  /** The current entity tag, quoted, sent as `ETag`: with ERR_PRECONDITION. */
  etag?: string
}

/** What relay and vault refuse, told apart by `code`. */
export class ServerError extends Error {
  override readonly name = 'ServerError'
  readonly code: ServerErrorCode
  readonly status: number
  readonly retryAfterSeconds: number | undefined
  readonly etag: string | undefined

  constructor(code: ServerErrorCode, { detail, cause, retryAfterSeconds, etag }: ServerErrorOptions = {}) {
    const [status, text] = serverErrors[code]
    super(detail === undefined ? text : `${text}: ${detail}`, cause === undefined ? undefined : { cause })
    this.code = code
    this.status = status
    this.retryAfterSeconds = retryAfterSeconds
    this.etag = etag
  }
}

/** Answers an error; never throws. */
export type SendError = (req: Request, res: Response, error: unknown) => void

/**
 * Makes the function that answers every error of the servers in the form of the library's own. What is unforeseen is a
 * 500 without text, with its cause in the log only. Where an answer has begun, the connection is closed.
 */
export function errorSender(
  { serviceUrl, errorFormat }: { serviceUrl: string; errorFormat?: 'text' | 'problem' | undefined },
  log: Logger
): SendError {
  return (req, res, thrown) => {
    const error =
      thrown instanceof ServerError || thrown instanceof DidAuthError
        ? thrown
        : new DidAuthError('ERR_INTERNAL', { cause: thrown })
    const { code, message: text, retryAfterSeconds } = error
    const status = error instanceof ServerError ? error.status : errorStatuses[error.code]
    // A client that disconnected while it waited is not a failure of the server, and must not fill the log.
    const isOfClientGone = code === 'ERR_BUSY' && req.socket.destroyed
    const fields = { event: status < 500 ? 'request-refused' : 'request-failed', reason: code }
    if (status < 500) log.debug(fields, 'request refused')
    else if (!isOfClientGone) log.error({ ...fields, ...describeError(error.cause) }, 'request failed')
    if (res.headersSent || res.destroyed) {
      res.destroy()
      return
    }
    if (error instanceof ServerError && error.etag !== undefined) res.setHeader('ETag', error.etag)
    sendErrorAnswer(req, res, { status, code, text, retryAfterSeconds }, { serviceUrl, errorFormat })
  }
}
