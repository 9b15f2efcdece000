import type { Request, Response } from 'express'
import { errorStatuses } from '../error-statuses.js'
import { DidAuthError, errorTexts, type DidAuthErrorCode } from '../errors.js'
import type { Settings } from '../config/settings.js'
import type { Parts } from '../flows/parts.js'
import type { Logger, SecurityEvent } from '../ports.js'
import { clientOf } from './client-network.js'
import { describeCause } from '../flows/describe-cause.js'
import { refusalLog } from './refusal-log.js'
import { sendErrorAnswer } from './send-error-answer.js'

/** Refusals that are reported to the application as well. */
const SECURITY_EVENTS: ReadonlyMap<DidAuthErrorCode, SecurityEvent['type']> = new Map([
  ['ERR_CROSS_ORIGIN', 'cross-origin-refused'],
  ['ERR_TOO_MANY_REQUESTS', 'too-many-requests']
])

/** Answers a request with an error. */
export type SendError = (req: Request, res: Response, error: unknown) => void

/**
 * Makes the function that answers every error: a fixed text or RFC 9457, and no detail of what went wrong. Anything but a
 * {@link DidAuthError} is a 500, with its cause in the log only.
 */
export function errorSender(
  { serviceUrl, errorFormat }: Pick<Settings, 'serviceUrl' | 'errorFormat'>,
  logger: Logger,
  report: Parts['report']
): SendError {
  const logRefusal = refusalLog(logger)
  return (req, res, thrown) => {
    const error = thrown instanceof DidAuthError ? thrown : new DidAuthError('ERR_INTERNAL', { cause: thrown })
    const status = errorStatuses[error.code]
    // A client that hung up while it waited, or in its body, is neither a failure of the service nor refused.
    const isGone = req.socket.destroyed
    if (status >= 500 && !(error.code === 'ERR_BUSY' && isGone)) {
      logger.error(
        { event: 'request-failed', code: error.code, cause: describeCause(error.cause) },
        errorTexts[error.code]
      )
    }
    if (status < 500 && !isGone) logRefusal(error)
    const type = SECURITY_EVENTS.get(error.code)
    if (type !== undefined) report({ type, code: error.code, clientNetwork: clientOf(req).network })
    if (res.headersSent || res.destroyed) return
    const { code, message: text, retryAfterSeconds } = error
    sendErrorAnswer(req, res, { status, code, text, retryAfterSeconds }, { serviceUrl, errorFormat })
  }
}
