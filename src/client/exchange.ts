import {
  CHALLENGE,
  FULL,
  MISSING,
  NOT_FOUND,
  PROTOCOL,
  RATE_LIMITED,
  TAKEN_DOWN,
  TOO_LARGE,
  UNAVAILABLE
} from './error-codes.js'
import { DidAuthClientError, type ErrorKind, type PlainErrorCode } from './errors.js'
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
 * @throws DidAuthClientError UNAVAILABLE when there is no whole answer in time; PROTOCOL when it is too large;
 * the signal's reason
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
    if (!value) return joined(pieces)
    left -= value.length
    if (left < 0) {
      await reader?.cancel()
      throw new DidAuthClientError(PROTOCOL, { message: 'Too large' })
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

/** What statuses say of the content, where the service has a code for it. */
const meanings: Readonly<Record<number, ErrorKind<PlainErrorCode>>> = {
  404: NOT_FOUND,
  413: TOO_LARGE,
  451: TAKEN_DOWN,
  502: MISSING,
  507: FULL
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
    retryAfterSeconds,
    userMessage: networkRefusal(serverCode, request)
  }
  const kind =
    (serverCode && meanings[status]) ||
    (status === 401 ? CHALLENGE : status === 429 ? RATE_LIMITED : status < 500 ? PROTOCOL : UNAVAILABLE)
  return new DidAuthClientError(kind, details)
}
