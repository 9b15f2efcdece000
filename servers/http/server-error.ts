import { DidAuthError } from 'express-did-auth'
import { createErrorSender, type SendError } from 'express-did-auth/server-kit'
import type { Logger } from 'pino'
import type { ServerEnv } from '../config/read-env.js'
import { describeError } from '../observability/error-fields.js'

/** Status and fixed text of the codes of relay and vault. They are as stable as the library's codes. */
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
  /** Additional text, such as a maximum. It must not contain parts of the request. */
  detail?: string
  /** Cause of the error, for the log only. */
  cause?: unknown
  /** Time after which a retry makes sense, in whole seconds. */
  retryAfterSeconds?: number
  /** Current entity tag, quoted. It is sent as `ETag` with ERR_PRECONDITION. */
  etag?: string
}

/** Error for a request that relay or vault refuses. `code` is the reason. */
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

type SenderParts = { serviceUrl: string; env: Pick<ServerEnv, 'ERROR_FORMAT'>; log: Logger }

/** Creates the function that sends all errors of a server, in the format of the library. */
export function createServerErrorSender({ serviceUrl, env, log }: SenderParts): SendError {
  return createErrorSender({
    serviceUrl,
    errorFormat: env.ERROR_FORMAT,
    isDevelopment: process.env.NODE_ENV !== 'production',
    logger: log,
    parseError: (thrown) => {
      if (thrown instanceof DidAuthError) return undefined
      if (!(thrown instanceof ServerError)) {
        return { code: 'ERR_INTERNAL', status: 500, text: 'Internal error', cause: removeMessage(thrown) }
      }
      const { code, status, message: text, retryAfterSeconds, etag, cause } = thrown
      const headers = etag === undefined ? {} : { ETag: etag }
      return { code, status, text, retryAfterSeconds, headers, cause: cause && removeMessage(cause) }
    }
  })
}

/** Removes the message from an error for the log, because it may quote data of a user. */
function removeMessage(error: unknown): object {
  const { type: name, code, at } = describeError(error)
  return { name, code, stack: at.join('\n') }
}
