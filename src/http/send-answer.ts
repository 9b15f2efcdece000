import { STATUS_CODES } from 'node:http'
import type { Request, Response } from 'express'

/** Express's own `res.json` costs more than the rest of a challenge. A text is sent together with the headers. */
export function sendJson(res: Response, body: object, headers?: Record<string, string>): void {
  sendText(res, JSON.stringify(body), headers, 'application/json')
}

/** Answers 200 with text. */
export function sendText(res: Response, text: string, headers: Record<string, string> = {}, type = 'text/plain'): void {
  res.writeHead(200, {
    'Content-Type': `${type}; charset=utf-8`,
    'Content-Length': Buffer.byteLength(text),
    'Cache-Control': 'no-store',
    ...headers
  })
  res.end(text)
}

/** Answers 200 without content. */
export function sendEmpty(res: Response, headers: Record<string, string> = {}): void {
  res.writeHead(200, { 'Content-Length': 0, 'Cache-Control': 'no-store', ...headers })
  res.end()
}

/** An error as its client sees it. */
export interface ErrorAnswer {
  /** HTTP status. */
  status: number
  /** Stable, such as `ERR_NOT_FOUND`: clients may switch on it. */
  code: string
  /** For people: a short fixed text, which must show nothing of what went wrong inside. */
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

const DEFAULT_RETRY_AFTER_SECONDS = 5

// Express prefers what stands first, and axios writes `text/plain` before all that its user adds.
const NAMES_PROBLEM = /(?:^|,)\s*application\/problem\+json\s*(?:,|$)/i

/**
 * Answers a request with an error in the form of this package's own errors: plain text, or RFC 9457 where the client
 * asks for it; `Cache-Control: no-store`, and `WWW-Authenticate` or `Retry-After` where the status has one.
 *
 * @example
 * app.use((req, res) => {
 *   sendErrorAnswer(req, res, { status: 404, code: 'ERR_NOT_FOUND', text: 'Not found' }, { serviceUrl })
 * })
 */
export function sendErrorAnswer(
  req: Request,
  res: Response,
  { status, code, text, details, retryAfterSeconds = DEFAULT_RETRY_AFTER_SECONDS }: ErrorAnswer,
  { serviceUrl, errorFormat = 'text' }: ErrorAnswerOptions
): void {
  if (status === 401) res.setHeader('WWW-Authenticate', `DIDAuth realm="${serviceUrl}"`)
  // The rest of a body that did not arrive in time must not be parsed as the next request.
  if (status === 408) res.setHeader('Connection', 'close')
  if (status === 429 || status === 503 || status === 504) {
    res.setHeader('Retry-After', String(Math.ceil(retryAfterSeconds)))
  }
  const isProblem = wantsProblem(req, errorFormat)
  const problem = { type: 'about:blank', title: text, status, code, ...details }
  const body = Buffer.from(isProblem ? JSON.stringify(problem) : text)
  res.writeHead(status, STATUS_CODES[status], {
    'Content-Type': isProblem ? 'application/problem+json; charset=utf-8' : 'text/plain; charset=utf-8',
    'Content-Length': body.length,
    'X-Content-Type-Options': 'nosniff',
    'Cache-Control': 'no-store'
  })
  res.end(body)
}

/** Whether a client gets RFC 9457. With `errorFormat: 'problem'` it gets text only when it accepts text and no JSON. */
function wantsProblem(req: Request, errorFormat: 'text' | 'problem'): boolean {
  if (NAMES_PROBLEM.test(req.headers.accept ?? '')) return true
  if (errorFormat === 'text') {
    return req.accepts(['text/plain', 'application/problem+json']) === 'application/problem+json'
  }
  return req.accepts(['application/problem+json', 'application/json']) !== false || req.accepts('text/plain') === false
}
