import { PROTOCOL, RATE_LIMITED, UNAVAILABLE } from './error-codes.js'
import { DidAuthClientError, type ClientErrorCode, type ClientErrorFacts, type ErrorKind } from './errors.js'
import { isText, parseFields, parseJson } from './json.js'
import { concatBytes, decodeUtf8, type Bytes } from './seal.js'
import { runWithin, throwIfAborted } from './timing.js'

/** A service, and the settings of its requests. */
export interface Service {
  /** URL of the service, without a trailing slash. */
  readonly url: string
  /** Default: the global `fetch`. */
  readonly fetch?: ((url: string, init: RequestInit) => Promise<Response>) | undefined
  /** Handling of redirects and cookies. */
  readonly init?: RequestInit
  /** Time limit for a response with its body, in seconds. Default 60. */
  readonly timeoutSeconds?: number | undefined
  /** Returns the error for a refusal by this service. If it returns none, the status decides. */
  readonly findErrorKind?: (status: number, code: string | undefined, answer: Answer) => Meaning
  /** Reads the body of a response: {@link readAll} or {@link readAtMost}. */
  readonly read: (response: Response) => Promise<Bytes>
}

/** An error code without further fields. */
export type PlainErrorKind = ErrorKind<Exclude<ClientErrorCode, keyof ClientErrorFacts>>
type Meaning = PlainErrorKind | false | '' | undefined

export interface Call {
  /** Default: POST with a body, GET without one. */
  readonly method?: string | undefined
  readonly path: string
  /** Body, to be sent as JSON. */
  readonly body?: object | undefined
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
}

/** A complete response. */
export interface Answer {
  /** Method and URL of the request, for error messages. */
  readonly what: string
  readonly response: Response
  readonly body: Bytes
  /** The parsed body; undefined if it is not JSON. */
  readonly json: unknown
}

/**
 * Sends a request and returns its complete response, which has a 2xx status.
 *
 * @throws DidAuthClientError UNAVAILABLE if no complete response arrives in time; PROTOCOL if it is too large; the
 * error of a refusal; or the signal's reason
 */
export async function ask(service: Service, call: Call): Promise<Answer> {
  const { fetch = globalThis.fetch, timeoutSeconds = 60, init } = service
  const { body, method = body ? 'POST' : 'GET', headers, signal } = call
  const url = service.url + call.path
  const request: RequestInit = {
    method,
    // Problem details have the error code.
    headers: {
      Accept: '*/*, application/problem+json',
      ...(body && { 'Content-Type': 'application/json' }),
      ...headers
    },
    body: body ? JSON.stringify(body) : null,
    ...init
  }
  const exchange = async (timeoutSignal: AbortSignal) => {
    const response = await fetch(url, { ...request, signal: timeoutSignal })
    return { response, body: await service.read(response) }
  }
  const received = await mapToUnavailable(`${method} ${url}`, signal, () => runWithin(timeoutSeconds, signal, exchange))
  const { response } = received
  const what = `${method} ${response.url || url}`
  const answer = { what, ...received, json: parseJson(decodeUtf8(received.body)) }
  if (!response.ok) throw toClientError(answer, service, body)
  return answer
}

/**
 * Sends a request and returns its JSON; undefined for an empty body.
 *
 * @throws DidAuthClientError as {@link ask}, PROTOCOL for other content
 */
export async function askJson(service: Service, call: Call): Promise<unknown> {
  const answer = await ask(service, call)
  if (!answer.json && answer.body.length) throw toClientError(answer)
  return answer.json
}

/** Reads a text field of a JSON response. */
export function readText({ json }: Answer, name: string): string | undefined {
  const value = parseFields(json)[name]
  return isText(value) ? value : undefined
}

/** Reads a required text field of a JSON response. @throws DidAuthClientError PROTOCOL */
export function readRequiredText(answer: Answer, name: string, isExpected = isText): string {
  const text = readText(answer, name)
  if (!isExpected(text)) throw toClientError(answer)
  return text
}

/** Reads a body of any length. */
export async function readAll(response: Response): Promise<Bytes> {
  return new Uint8Array(await response.arrayBuffer())
}

/** Reads a body of at most `maxBytes`. @throws DidAuthClientError PROTOCOL if it is larger */
export async function readAtMost(maxBytes: number, response: Response): Promise<Bytes> {
  const pieces: Uint8Array[] = []
  let left = maxBytes
  const take = (count: number): void => {
    left -= count
    if (left < 0) throw new DidAuthClientError(PROTOCOL, { message: 'Too large' })
  }
  const reader: ReadableStreamDefaultReader<Uint8Array> | undefined = response.body?.getReader()
  if (!reader) {
    // React Native has no streams. An empty body has none either.
    take(Number(response.headers.get('Content-Length')))
    const bytes = await readAll(response)
    left = maxBytes
    take(bytes.length)
    return bytes
  }
  try {
    for (;;) {
      const { value } = await reader.read()
      if (!value) return concatBytes(pieces)
      take(value.length)
      pieces.push(value)
    }
  } catch (error) {
    await reader.cancel()
    throw error
  }
}

/** Converts an unexpected response to an error: PROTOCOL unless its status or code has a meaning. */
export function toClientError(answer: Answer, service?: Service, request?: { did?: string }): DidAuthClientError {
  const { status, headers } = answer.response
  const serverCode = readText(answer, 'code')
  const kind =
    service?.findErrorKind?.(status, serverCode, answer) ||
    (status === 429 ? RATE_LIMITED : status === 408 || status >= 500 ? UNAVAILABLE : PROTOCOL)
  const refusedDid = /DID_UNSUPP/.test(String(serverCode)) && request?.did
  // A chain number may be reserved for contracts, which sign only the text of EIP-4361.
  const hint = refusedDid && ". Contracts log in with message: 'siwe' (EIP-4361)"
  return new DidAuthClientError(kind, {
    message: `${answer.what}: ${status} ${readText(answer, 'title') ?? headers.get('Content-Type')}${hint || ''}`,
    status,
    serverCode,
    retryAfterSeconds: Number(headers.get('Retry-After')) || undefined,
    userMessage: refusedDid ? `The service refused the network of ${refusedDid}. Contact its operator.` : undefined
  })
}

/** Runs a request and maps foreign errors to UNAVAILABLE. @throws DidAuthClientError, or the signal's reason */
export async function mapToUnavailable<T>(
  what: string,
  signal: AbortSignal | null | undefined,
  request: () => Promise<T>
): Promise<T> {
  try {
    return await request()
  } catch (cause) {
    throwIfAborted(signal)
    throw cause instanceof DidAuthClientError
      ? cause
      : new DidAuthClientError(UNAVAILABLE, { message: `${what}: ${cause as Error}`, cause })
  }
}

/** Loads code that is rarely used. @throws DidAuthClientError UNAVAILABLE if it cannot be loaded */
export function loadCode<T>(load: () => Promise<T>): Promise<T> {
  return mapToUnavailable('import', undefined, load)
}

/**
 * Whether a retry with a new challenge or token may succeed: the challenge has expired or was used, or the token was
 * refused.
 *
 * @param mayBeOld - the cached token of the request, if it had one
 */
export function isOutdated(error: unknown, mayBeOld?: unknown): boolean {
  const { code, serverCode } = parseFields(error)
  return code === 'CHALLENGE' && (!!mayBeOld || /(EXPIRED|USED)$/.test(String(serverCode)))
}

/**
 * Returns the URL of a service without trailing slashes.
 *
 * @throws TypeError if it is not an http(s) URL, because every other scheme has the origin `null`
 */
export function parseServiceUrl(url: string): string {
  if (!/^https?:\/\/[^/]/.test(url)) throw TypeError(`${url}: not http(s)`)
  return url.replace(/\/+$/, '')
}

/** Whether a body can be sent again. Sending consumes a stream. */
export function canRepeat(body: object | string | null | undefined): boolean {
  return !body || typeof body === 'string' || !('getReader' in body || Symbol.asyncIterator in body)
}
