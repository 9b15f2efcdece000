import { RETRY_AFTER_SECONDS } from './errors.js'
import type { HttpAnswer, HttpRequest } from './http-messages.js'

/** An error as its client sees it. */
export interface ErrorAnswer {
  /** HTTP status, 400 to 599. */
  status: number
  /** Stable, such as `ERR_NOT_FOUND`: clients may switch on it. */
  code: string
  /** Short fixed text for people, which must not reveal what went wrong inside. */
  text: string
  /** Seconds after which a retry makes sense, for 429, 503 and 504. Default 5. */
  retryAfterSeconds?: number | undefined
  /** Further fields, where it is RFC 9457. */
  details?: Readonly<Record<string, string>> | undefined
}

/** Options that decide headers and format of an answered error. */
export interface ErrorAnswerOptions {
  /** The realm of the `WWW-Authenticate` header of a 401. */
  serviceUrl: string
  /** Value of the `WWW-Authenticate` header of a 401, instead of the scheme `DIDAuth`. */
  challenge?: string | undefined
  /** Format when `Accept` does not decide: `text` (default), or `problem` for RFC 9457. */
  errorFormat?: 'text' | 'problem' | undefined
}

/** Properties of an Express request that decide the format of an answer. */
interface AnsweredRequest {
  readonly headers: { readonly accept?: string | string[] | undefined }
  accepts(types: string[]): string | false
}

/** Properties of an Express response that are used. */
interface AnsweredResponse {
  statusCode: number
  setHeader(name: string, value: string): unknown
  end(body: string): unknown
}

const PROBLEM = 'application/problem+json'
// Express prefers the first type, and axios writes `text/plain` before all types that its user adds.
const NAMES_PROBLEM = /(?:^|,)\s*application\/problem\+json\s*(?:,|$)/i

const answeredCodes = new WeakMap<object, string>()

/** Finds the code of the error that a response answered, for a log of requests. */
export function findErrorCode(res: object): string | undefined {
  return answeredCodes.get(res)
}

/** Returns the id of a request as a field of log lines and answers; no field for a request without id. */
export function toIdField(requestId: string | undefined): { requestId?: string } {
  return requestId === undefined ? {} : { requestId }
}

/** Keeps the code of the error that a response answers, for {@link findErrorCode}. */
export function rememberErrorCode(res: object, code: string): void {
  answeredCodes.set(res, code)
}

/**
 * Answers a request with an error in the form of this package's own errors: plain text, or RFC 9457 where the client
 * asks for it; `Cache-Control: no-store`, and `WWW-Authenticate` or `Retry-After` where the status has one.
 * @example
 * app.use((req, res) => {
 *   sendErrorAnswer(req, res, { status: 404, code: 'ERR_NOT_FOUND', text: 'Not found' }, { serviceUrl })
 * })
 */
export function sendErrorAnswer(
  req: AnsweredRequest,
  res: AnsweredResponse,
  error: ErrorAnswer,
  options: ErrorAnswerOptions
): void {
  const { status, headers, body } = formatErrorAnswer(req, error, options)
  rememberErrorCode(res, error.code)
  res.statusCode = status
  for (const [name, value] of Object.entries(headers)) res.setHeader(name, value)
  res.setHeader('Content-Length', String(new TextEncoder().encode(body).length))
  res.end(body)
}

/** Returns the answer for an error, in the format that the client prefers. */
export function formatErrorAnswer(
  request: AnsweredRequest | Pick<HttpRequest, 'headers' | 'accepts'>,
  { status, code, text, details, retryAfterSeconds = RETRY_AFTER_SECONDS }: ErrorAnswer,
  { serviceUrl, challenge = `DIDAuth realm="${serviceUrl}"`, errorFormat = 'text' }: ErrorAnswerOptions
): HttpAnswer & { body: string } {
  const isProblem = wantsProblem(request, errorFormat)
  const headers = {
    ...(status === 401 && { 'WWW-Authenticate': challenge }),
    // The rest of a body that did not arrive in time must not be parsed as the next request.
    ...(status === 408 && { Connection: 'close' }),
    ...([429, 503, 504].includes(status) && { 'Retry-After': String(Math.ceil(retryAfterSeconds)) }),
    'Content-Type': `${isProblem ? PROBLEM : 'text/plain'}; charset=utf-8`,
    'X-Content-Type-Options': 'nosniff',
    'Cache-Control': 'no-store'
  }
  const body = isProblem ? JSON.stringify({ type: 'about:blank', title: text, status, code, ...details }) : text
  return { status, headers, body, errorCode: code }
}

/** Maximum length of an `Accept` header. Reading a longer one takes milliseconds, so it counts as absent. */
const MAX_ACCEPT_LENGTH = 1_024

/** Whether a client gets RFC 9457. With `errorFormat: 'problem'` it gets text only when it accepts text and no JSON. */
function wantsProblem(request: AnsweredRequest, errorFormat: 'text' | 'problem'): boolean {
  const accept = String(request.headers.accept ?? '')
  if (accept.length > MAX_ACCEPT_LENGTH) return errorFormat === 'problem'
  if (NAMES_PROBLEM.test(accept)) return true
  if (errorFormat === 'text') return request.accepts(['text/plain', PROBLEM]) === PROBLEM
  return request.accepts([PROBLEM, 'application/json']) !== false || request.accepts(['text/plain']) === false
}
