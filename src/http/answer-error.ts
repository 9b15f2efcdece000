import { formatErrorAnswer, toIdField, type ErrorAnswer, type ErrorAnswerOptions } from '../error-answer.js'
import { DidAuthError, errorStatuses, errorTexts, type DidAuthErrorCode, type RefusalReason } from '../errors.js'
import { describeCause, logFailure } from '../flows/describe-cause.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import type { Logger, SecurityEvent } from '../ports.js'
import { isLoopbackHost, parseHttpUrl } from '../protocol/parse-url.js'
import { createClient } from './client-network.js'
import { findNonceHeader } from './session-binding.js'

/** Refusals that are reported to the application as well. */
const SECURITY_EVENTS: ReadonlyMap<string, SecurityEvent['type']> = new Map<DidAuthErrorCode, SecurityEvent['type']>([
  ['ERR_CROSS_ORIGIN', 'cross-origin-refused'],
  ['ERR_TOO_MANY_REQUESTS', 'too-many-requests']
])

/** Logs an error, and returns its answer. */
export type AnswerError = (
  request: Pick<HttpRequest, 'id' | 'headers' | 'originalUrl' | 'accepts' | 'isGone' | 'clientAddress'>,
  error: unknown
) => HttpAnswer

/** An error as it is answered and logged. */
export interface FailedRequest extends ErrorAnswer {
  /** A fixed text for the log, where `text` is not. */
  logText?: string
  /** The check that refused, only for the log. */
  reason?: RefusalReason | undefined
  /** Underlying error, only for the log. */
  cause?: unknown
  /** Headers of the answer in addition to those that each error has. */
  headers?: Readonly<Record<string, string>> | undefined
}

/** Options of the function that logs and answers errors. */
export interface ErrorAnswererOptions extends ErrorAnswerOptions {
  /** Receiver of refusals (debug, and warn for the first of a code) and failures (error). */
  logger: Logger
  /**
   * Whether problem details have the member `reason`, for developers: only where client and `serviceUrl` are on this
   * machine. Default false.
   */
  isDevelopment?: boolean | undefined
  /** Receives refusals that an operator may want to count. */
  report?: ((event: Omit<SecurityEvent, 'atSeconds'>, requestId: string | undefined) => void) | undefined
  /** Parses errors of other classes. Returns undefined for an unknown error, which is answered 500. */
  parseError?: (thrown: unknown) => FailedRequest | undefined
}

/**
 * Creates the function that answers every error: a fixed text or RFC 9457, without details of the failure. An error of
 * an unknown class is a 500, whose cause is only in the log.
 */
export function createErrorAnswerer({
  logger,
  isDevelopment = false,
  report,
  parseError,
  ...format
}: ErrorAnswererOptions): AnswerError {
  const logRefusal = createRefusalLog(logger)
  const showsReasons = isDevelopment && isLoopbackHost(parseHttpUrl(format.serviceUrl)?.hostname ?? '')
  return (request, thrown) => {
    const failed = parseError?.(thrown) ?? parseDidAuthError(thrown)
    const { status, code, cause, text, logText = text, headers, reason } = failed
    const requestId = toIdField(request.id)
    // A client that disconnected while it waited, or in its body, is neither a failure of the service nor refused.
    const isGone = request.isGone()
    if (status >= 500 && !(code === 'ERR_BUSY' && isGone)) {
      logFailure(logger, { event: 'request-failed', code, ...requestId }, { code, cause, text: logText })
    }
    if (status < 500 && !isGone) logRefusal(failed, requestId)
    const type = SECURITY_EVENTS.get(code)
    if (type !== undefined && thrown instanceof DidAuthError) {
      report?.({ type, code: thrown.code, clientNetwork: createClient(request).network }, request.id)
    }
    const shown = showsReasons && reason !== undefined && isFromThisMachine(request) ? formatReason(reason) : {}
    const details = { ...failed.details, ...requestId, ...shown }
    const answer = formatErrorAnswer(request, { ...failed, details }, format)
    return headers === undefined ? answer : { ...answer, headers: { ...headers, ...answer.headers } }
  }
}

/** Whether a client on this machine sent a request. A proxy on this machine forwards those of others. */
function isFromThisMachine({ clientAddress = '', headers }: Parameters<AnswerError>[0]): boolean {
  const isLoopback = /^(?:(?:::ffff:)?127(?:\.\d+){3}|::1)$/.test(clientAddress)
  return isLoopback && headers['x-forwarded-for'] === undefined
}

/** Formats what was expected. What was received or recovered is not shown: it may be the address of another user. */
function formatReason({ check, field, expected, acceptedDomains, option }: RefusalReason): { reason: string } {
  const parts = [
    field === undefined ? check : `${check}, ${String(field)}`,
    ...(expected === undefined ? [] : [`expected ${[expected].flat().join(', ')}`]),
    ...(acceptedDomains === undefined ? [] : [`accepted domains: ${[acceptedDomains].flat().join(', ')}`]),
    ...(option === undefined ? [] : [`the option ${String(option)} decides`])
  ]
  return { reason: parts.join('; ') }
}

function parseDidAuthError(thrown: unknown): FailedRequest {
  const error = thrown instanceof DidAuthError ? thrown : new DidAuthError('ERR_INTERNAL', { cause: thrown })
  const { code, message: text, details, retryAfterSeconds, reason, cause } = error
  const status = errorStatuses[code]
  const headers = findNonceHeader(error)
  return { status, code, text, logText: errorTexts[code], details, retryAfterSeconds, reason, cause, headers }
}

/**
 * Makes the function that logs refused requests: each at debug, with its code and the check that refused it. The first
 * of each code (of 429: of each budget) is a warning that names the check, or the option that decides.
 * The texts are fixed: an error's own message may be the application's.
 */
function createRefusalLog(logger: Logger): (refused: FailedRequest, requestId: { requestId?: string }) => void {
  const warned = new Set<string>()
  return ({ code, reason, cause, text, logText = text }, requestId) => {
    const fields = { event: 'request-refused', code, ...requestId, ...(reason !== undefined && { reason }) }
    const why = reason === undefined && cause !== undefined ? { cause: describeCause(cause) } : {}
    const decides = reason?.option === undefined ? '' : `: the option ${String(reason.option)} decides`
    logger.debug?.({ ...fields, ...why }, logText + decides)
    const kind = `${code} ${String(reason?.budget ?? '')}`
    if (warned.has(kind)) return
    warned.add(kind)
    // Recovered addresses are logged only at debug.
    const shown = decides === '' ? reason && { check: reason.check } : reason
    const subject = reason?.budget === undefined ? 'of this code' : `by the budget of ${String(reason.budget)}`
    const more =
      decides === '' ? ': pass a logger with debug for the reason' : `${decides}; later ones are logged at debug`
    const firstFields = { event: 'first-refusal', code, ...requestId, ...(shown && { reason: shown }) }
    logger.warn(firstFields, `first refusal ${subject}${more}`)
  }
}
