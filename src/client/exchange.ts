import { ContentError, contentProblems } from './content-errors.js'
import { ChallengeError, ProtocolError, RateLimitedError, UnavailableError, type DidAuthClientError } from './errors.js'
import { isText, parseFields, parseJson } from './json.js'
import { networkRefusal, orUnavailable, withTimeout } from './requests.js'
import { joined, textOf, type Bytes } from './seal.js'

/** An answer that has arrived whole. */
export interface Answer {
  readonly url: string
  readonly status: number
  readonly headers: Headers
  readonly body: Bytes
}

export interface ExchangeOptions {
  /** The global one when absent. */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>
  /** For the whole answer. Default 60. */
  readonly timeoutSeconds?: number
  readonly signal?: AbortSignal | undefined
}

/**
 * Sends a request and reads its answer, whatever the status.
 *
 * @param maxBytes - of the answer's body
 * @throws UnavailableError when there is no whole answer in time; ProtocolError when it is too large; the signal's reason
 */
export async function exchange(
  url: string,
  init: RequestInit,
  maxBytes: number,
  { fetch = globalThis.fetch, timeoutSeconds = 60, signal }: ExchangeOptions
): Promise<Answer> {
  return orUnavailable(url, signal, async () => {
    const answer = await fetch(url, { ...init, signal: withTimeout(timeoutSeconds, signal) })
    const { status, headers, body } = answer
    return { url: answer.url || url, status, headers, body: await readBody(body, maxBytes) }
  })
}

async function readBody(body: Response['body'], maxBytes: number): Promise<Bytes> {
  const pieces: Uint8Array[] = []
  const reader: ReadableStreamDefaultReader<Uint8Array> | undefined = body?.getReader()
  for (let left = maxBytes; ;) {
    const { value } = (await reader?.read()) ?? {}
    if (value === undefined) return joined(pieces)
    left -= value.length
    if (left < 0) {
      await reader?.cancel()
      throw new ProtocolError({ message: `More than ${maxBytes} bytes` })
    }
    pieces.push(value)
  }
}

/** The JSON of a body; undefined where it is something else. */
export function jsonIn({ body }: Answer): unknown {
  return parseJson(textOf(body))
}

/** A text in a field of a body of JSON; undefined where there is none. */
export function textIn(answer: Answer, name: string): string | undefined {
  const value = parseFields(jsonIn(answer))[name]
  return isText(value) ? value : undefined
}

/**
 * What an answer means that is no answer to the request. Where the service has no code for it, something else answered.
 *
 * @param request - body of the request
 */
export function refusalOf(answer: Answer, request?: object): DidAuthClientError {
  const { url, status, headers } = answer
  const serverCode = textIn(answer, 'code')
  const retryAfterSeconds = Number(headers.get('Retry-After')) || undefined
  const details = {
    status,
    message: `${url}: ${status} ${serverCode ?? headers.get('Content-Type')}`,
    serverCode,
    retryAfterSeconds
  }
  const problem = serverCode && contentProblems[status]
  if (problem) return new ContentError(problem, details)
  if (status === 401) return new ChallengeError({ ...details, userMessage: networkRefusal(serverCode, request) })
  if (status === 429) return new RateLimitedError(details)
  return status < 500 ? new ProtocolError(details) : new UnavailableError(details)
}
