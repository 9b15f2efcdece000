import { PROTOCOL, RATE_LIMITED, UNAVAILABLE } from './error-codes.js'
import { DidAuthClientError, type ClientErrorCode, type ClientErrorFacts, type ErrorKind } from './errors.js'
import { isText, parseFields, parseJson } from './json.js'
import { concatBytes, decodeUtf8, type Bytes } from './seal.js'
import { createTimeoutSignal } from './timing.js'

/** A service, and how its requests are sent. */
export interface Service {
  /** URL of the service, which ends without a slash. */
  readonly url: string
  /** The global one when absent. */
  readonly fetch?: ((url: string, init: RequestInit) => Promise<Response>) | undefined
  /** Redirects and cookies of its requests. */
  readonly init?: RequestInit
  /** Time limit for one answer with its body. Default 60. */
  readonly timeoutSeconds?: number | undefined
  /** Finds the meaning of a refusal by this service, if it says more than the status does anywhere. */
  readonly findErrorKind?: (status: number, code: string | undefined, answer: Answer) => Meaning
  /** Reads the body of an answer: {@link readAll}, or {@link readAtMost}. */
  readonly read: (response: Response) => Promise<Bytes>
}

/** A code whose errors have nothing else. */
export type PlainErrorKind = ErrorKind<Exclude<ClientErrorCode, keyof ClientErrorFacts>>
type Meaning = PlainErrorKind | false | '' | undefined

export interface Call {
  /** Default: POST with a body, GET without. */
  readonly method?: string | undefined
  readonly path: string
  /** Body, which is sent as JSON. */
  readonly body?: object | undefined
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
}

/** An answer that has arrived whole. */
export interface Answer {
  /** The request as text, for messages. */
  readonly what: string
  readonly response: Response
  readonly body: Bytes
  /** The body as JSON; undefined where it is something else. */
  readonly json: unknown
}

/**
 * Sends a request and reads its answer, which has a status of success.
 *
 * @throws DidAuthClientError UNAVAILABLE when no whole answer comes in time; PROTOCOL for one that is too large; what
 * the refusal means; or the signal's reason
 */
export async function ask(service: Service, call: Call): Promise<Answer> {
  const { fetch = globalThis.fetch, timeoutSeconds = 60, init } = service
  const { body, method = body ? 'POST' : 'GET', headers, signal } = call
  const url = service.url + call.path
  return mapToUnavailable(`${method} ${url}`, signal, async () => {
    const response = await fetch(url, {
      method,
      // Errors in this form have their code.
      headers: {
        Accept: '*/*, application/problem+json',
        ...(body && { 'Content-Type': 'application/json' }),
        ...headers
      },
      body: body ? JSON.stringify(body) : null,
      ...init,
      signal: createTimeoutSignal(timeoutSeconds, signal)
    })
    const bytes = await service.read(response)
    const what = `${method} ${response.url || url}`
    const answer = { what, response, body: bytes, json: parseJson(decodeUtf8(bytes)) }
    if (!response.ok) throw toClientError(answer, service, body)
    return answer
  })
}

/** Asks for JSON; undefined for an empty answer. @throws DidAuthClientError as {@link ask}, PROTOCOL for a page */
export async function askJson(service: Service, call: Call): Promise<unknown> {
  const answer = await ask(service, call)
  if (!answer.json && answer.body.length) throw toClientError(answer)
  return answer.json
}

/** Reads a text in a field of an answer of JSON. */
export function readText({ json }: Answer, name: string): string | undefined {
  const value = parseFields(json)[name]
  return isText(value) ? value : undefined
}

/** Returns the text of a field that an answer has to have. @throws DidAuthClientError PROTOCOL */
export function readRequiredText(answer: Answer, name: string, isExpected = isText): string {
  const text = readText(answer, name)
  if (!isExpected(text)) throw toClientError(answer)
  return text
}

/** Reads a body of any length. */
export async function readAll(response: Response): Promise<Bytes> {
  return new Uint8Array(await response.arrayBuffer())
}

/** Reads a body of so many bytes at most. @throws DidAuthClientError PROTOCOL when it is larger */
export async function readAtMost(maxBytes: number, { body }: Response): Promise<Bytes> {
  const pieces: Uint8Array[] = []
  const reader: ReadableStreamDefaultReader<Uint8Array> | undefined = body?.getReader()
  for (let left = maxBytes; ;) {
    const { value } = (await reader?.read()) ?? {}
    if (!value) return concatBytes(pieces)
    left -= value.length
    if (left < 0) {
      await reader?.cancel()
      throw new DidAuthClientError(PROTOCOL, { message: 'Too large' })
    }
    pieces.push(value)
  }
}

/** Converts an unexpected answer to an error. If no rule knows the answer, it is from another server: PROTOCOL. */
export function toClientError(answer: Answer, service?: Service, request?: { did?: string }): DidAuthClientError {
  const { status, headers } = answer.response
  const serverCode = readText(answer, 'code')
  const kind =
    service?.findErrorKind?.(status, serverCode, answer) ||
    (status === 429 ? RATE_LIMITED : status === 408 || status >= 500 ? UNAVAILABLE : PROTOCOL)
  return new DidAuthClientError(kind, {
    message: `${answer.what}: ${status} ${readText(answer, 'title') ?? headers.get('Content-Type')}`,
    status,
    serverCode,
    retryAfterSeconds: Number(headers.get('Retry-After')) || undefined,
    userMessage:
      request?.did && /DID_UNSUPP/.test(String(serverCode))
        ? `The service refused the network of ${request.did}. Contact its operator.`
        : undefined
  })
}

/** Returns the result of a request. @throws the signal's reason; UNAVAILABLE for errors other than the client's own */
export async function mapToUnavailable<T>(
  what: string,
  signal: AbortSignal | null | undefined,
  request: () => Promise<T>
): Promise<T> {
  try {
    return await request()
  } catch (cause) {
    signal?.throwIfAborted()
    throw cause instanceof DidAuthClientError
      ? cause
      : new DidAuthClientError(UNAVAILABLE, { message: `${what}: ${cause as Error}`, cause })
  }
}

/** Whether a challenge or token came too late, or a challenge was used: another one may be accepted. */
export function isOutdated(error: unknown, mayBeOld?: unknown): boolean {
  const { code, serverCode } = parseFields(error)
  return code === 'CHALLENGE' && (!!mayBeOld || /(EXPIRED|USED)$/.test(String(serverCode)))
}

/**
 * The URL of a service, without a slash at its end.
 *
 * @throws TypeError when it is none with http or https: the origin of every other scheme is `null`
 */
export function parseServiceUrl(url: string): string {
  if (!/^https?:\/\/[^/]/.test(url)) throw TypeError(`${url}: not http(s)`)
  return url.replace(/\/+$/, '')
}
