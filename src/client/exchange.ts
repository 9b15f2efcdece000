import { CrossOriginError, ProtocolError, RateLimitedError, UnavailableError } from './errors.js'
import type { ClientErrorDetails, DidAuthClientError } from './errors.js'
import { joined, textOf, type Bytes } from './seal.js'
import { fieldOf } from './wallet.js'

/** An answer that has arrived whole. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Bytes
}

export interface ExchangeOptions {
  readonly fetch: typeof globalThis.fetch
  /** For the whole answer. */
  readonly timeoutSeconds: number
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
  { fetch, timeoutSeconds, signal }: ExchangeOptions
): Promise<Answer> {
  signal?.throwIfAborted()
  const controller = new AbortController()
  const abort = (): void => {
    controller.abort()
  }
  signal?.addEventListener('abort', abort, controller)
  const timer = setTimeout(abort, timeoutSeconds * 1_000)
  try {
    const { status, headers, body } = await fetch(url, { credentials: 'omit', ...init, signal: controller.signal })
    return { status, headers, body: await readBody(body, maxBytes) }
  } catch (cause) {
    signal?.throwIfAborted()
    if (cause instanceof ProtocolError) throw cause
    throw new UnavailableError({ message: `No answer of ${new URL(url).host}`, cause })
  } finally {
    clearTimeout(timer)
    // Ends the listening, and what is left of an answer that is not wanted.
    abort()
  }
}

async function readBody(body: Response['body'], maxBytes: number): Promise<Bytes> {
  const pieces: Uint8Array[] = []
  const reader: ReadableStreamDefaultReader<Uint8Array> | undefined = body?.getReader()
  for (let left = maxBytes; ;) {
    const { value } = (await reader?.read()) ?? {}
    if (value === undefined) return joined(pieces)
    left -= value.length
    if (left < 0) throw new ProtocolError({ message: `More than ${maxBytes} bytes` })
    pieces.push(value)
  }
}

/** A field of a body of JSON; undefined where the body is something else. */
export function fieldIn({ body }: Answer, name: string): unknown {
  try {
    return fieldOf(JSON.parse(textOf(body)), name)
  } catch {
    return undefined
  }
}

/** What a refusal says: status, the service's code and text (RFC 9457), and when to try again. */
export function detailsOf(answer: Answer): ClientErrorDetails {
  const { status, headers } = answer
  const [code, title] = [fieldIn(answer, 'code'), fieldIn(answer, 'title')]
  const seconds = Number(headers.get('retry-after') ?? NaN)
  return {
    status,
    message: `${status} ${typeof title === 'string' ? title : 'of no service of this protocol'}`,
    serverCode: typeof code === 'string' ? code : undefined,
    retryAfterSeconds: seconds >= 0 ? Math.ceil(seconds) : undefined
  }
}

/** What an answer means that is no answer to the request: by its status alone. */
export function refusalOf(details: ClientErrorDetails): DidAuthClientError {
  const { status = 0 } = details
  if (status === 429) return new RateLimitedError(details)
  if (status >= 500) return new UnavailableError(details)
  return status === 403 ? new CrossOriginError(details) : new ProtocolError(details)
}
