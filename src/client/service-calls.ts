import {
  ChallengeError,
  CrossOriginError,
  DidAuthClientError,
  NotSignedInError,
  ProtocolError,
  RateLimitedError,
  RefusedError,
  SessionEndedError,
  UnavailableError
} from './errors.js'
import { unlessAborted, type Timer } from './timing.js'
import { fieldOf } from './wallet.js'

/** How long a service may take for an answer. */
const TIMEOUT_SECONDS = 8

/** A service, and how its requests are sent. */
export interface Service {
  /** Without a slash at its end. */
  readonly url: string
  readonly fetch: typeof globalThis.fetch
  readonly timer: Timer
  /** Whether the browser sends tokens by itself. */
  readonly usesCookies?: boolean
}

export interface ServiceCall {
  readonly method?: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  /** Sent as JSON. */
  readonly body?: object | undefined
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
}

export interface ServiceAnswer {
  /** What the JSON says, of any type; undefined for an empty body. */
  readonly body: unknown
  readonly headers: Headers
}

/**
 * Asks a service of this package, within 8 s.
 *
 * @throws DidAuthClientError of any kind for refusals, UnavailableError, ProtocolError for what is no JSON; or the signal's
 * reason
 */
export async function callService(service: Service, call: ServiceCall): Promise<ServiceAnswer> {
  const { method = 'POST', path, body, headers, signal } = call
  signal?.throwIfAborted()
  const what = `${method} ${service.url}${path}`
  const ended = new AbortController()
  const exchange = async (): Promise<ServiceAnswer> => {
    const { fetch } = service
    const response = await fetch(service.url + path, {
      method,
      headers: {
        Accept: 'application/json, application/problem+json',
        ...(body && { 'Content-Type': 'application/json' }),
        ...headers
      },
      ...(body && { body: JSON.stringify(body) }),
      ...(service.usesCookies && { credentials: 'include' }),
      // Tokens and signatures go nowhere else.
      redirect: 'manual',
      signal: ended.signal
    })
    if (!response.ok) throw await failureOf(response, what)
    const text = await response.text()
    const answer = parseJson(text)
    if (text && answer === undefined) throw new ProtocolError({ message: `${what} answered no JSON`, status: 200 })
    return { body: answer, headers: response.headers }
  }
  const timeout = async (): Promise<never> => {
    await service.timer.wait(TIMEOUT_SECONDS, ended.signal)
    throw new UnavailableError({ message: `${what} took more than ${TIMEOUT_SECONDS} s` })
  }
  try {
    return await unlessAborted(Promise.race([exchange(), timeout()]), signal)
  } catch (cause) {
    signal?.throwIfAborted()
    throw cause instanceof DidAuthClientError ? cause : new UnavailableError({ message: `${what} failed`, cause })
  } finally {
    ended.abort()
  }
}

/**
 * Tells what an answer with an error status means.
 *
 * @param what - for the message: what was asked
 */
export async function failureOf(response: Response, what: string): Promise<DidAuthClientError> {
  const { status } = response
  const problem = parseJson(await response.text())
  const [code, title] = ['code', 'title'].map((name) => textOf(fieldOf(problem, name)))
  const after = response.headers.get('Retry-After') ?? ''
  const retryAfterSeconds = /^\d{1,6}$/.test(after) ? Number(after) : undefined
  const message = `${what} answered ${status} ${title ?? ''}`.trimEnd()
  const details = { message, status, serverCode: code, retryAfterSeconds }
  if (status === 429) {
    const wait = retryAfterSeconds && `Too many requests. Try again in ${retryAfterSeconds} seconds.`
    return new RateLimitedError({ ...details, userMessage: wait || undefined })
  }
  if (status >= 500 || status === 408) return new UnavailableError(details)
  if (code === undefined) return new ProtocolError(details)
  if (/^ERR_(?:CHALLENGE|SIGNATURE)/.test(code)) return new ChallengeError(details)
  if (code === 'ERR_CROSS_ORIGIN') return new CrossOriginError(details)
  if (code.startsWith('ERR_ACCESS_TOKEN')) return new NotSignedInError(details)
  if (code === 'ERR_REFRESH_TOKEN_REUSED') return new SessionEndedError('reused', details)
  if (code === 'ERR_REFRESH_TOKEN' || code === 'ERR_SESSION_ENDED') return new SessionEndedError('revoked', details)
  if (code === 'ERR_BUSINESS_LOGIC') return new RefusedError({ ...details, userMessage: title })
  if (/^ERR_(?:CREDENTIAL|DISCLOSURE|DID)/.test(code)) {
    return new RefusedError({ ...details, userMessage: `The service refused: ${title ?? code}. Check what you sent.` })
  }
  return new ProtocolError(details)
}

/** Parses JSON of any origin; undefined when it is none. */
export function parseJson(text: string | null | undefined): unknown {
  try {
    return JSON.parse(text ?? '')
  } catch {
    return undefined
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value.slice(0, 200) : undefined
}
