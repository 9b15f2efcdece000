/** An error as its client sees it. */
export interface ErrorAnswer {
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

export interface ErrorAnswerOptions {
  /** The realm of the `WWW-Authenticate` header of a 401. */
  serviceUrl: string
  /** Format when `Accept` does not decide: `text` (default), or `problem` for RFC 9457. */
  errorFormat?: 'text' | 'problem' | undefined
}

/** The part of a request of Express that decides the form of an answer. */
interface AnsweredRequest {
  readonly headers: { readonly accept?: string | string[] | undefined }
  accepts(types: string[]): string | false
}

/** The part of a response of Express that is used. */
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
  { status, code, text, details, retryAfterSeconds = 5 }: ErrorAnswer,
  { serviceUrl, errorFormat = 'text' }: ErrorAnswerOptions
): void {
  const isProblem = wantsProblem(req, errorFormat)
  const body = isProblem ? JSON.stringify({ type: 'about:blank', title: text, status, code, ...details }) : text
  answeredCodes.set(res, code)
  res.statusCode = status
  if (status === 401) res.setHeader('WWW-Authenticate', `DIDAuth realm="${serviceUrl}"`)
  // The rest of a body that did not arrive in time must not be parsed as the next request.
  if (status === 408) res.setHeader('Connection', 'close')
  if ([429, 503, 504].includes(status)) res.setHeader('Retry-After', String(Math.ceil(retryAfterSeconds)))
  res.setHeader('Content-Type', `${isProblem ? PROBLEM : 'text/plain'}; charset=utf-8`)
  res.setHeader('Content-Length', String(new TextEncoder().encode(body).length))
  res.setHeader('X-Content-Type-Options', 'nosniff')
  res.setHeader('Cache-Control', 'no-store')
  res.end(body)
}

/** Whether a client gets RFC 9457. With `errorFormat: 'problem'` it gets text only when it accepts text and no JSON. */
function wantsProblem(req: AnsweredRequest, errorFormat: 'text' | 'problem'): boolean {
  if (NAMES_PROBLEM.test(String(req.headers.accept))) return true
  if (errorFormat === 'text') return req.accepts(['text/plain', PROBLEM]) === PROBLEM
  return req.accepts([PROBLEM, 'application/json']) !== false || req.accepts(['text/plain']) === false
}
