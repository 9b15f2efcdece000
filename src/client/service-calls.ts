import { CHALLENGE, CROSS_ORIGIN, NOT_SIGNED_IN, PROTOCOL, RATE_LIMITED, REFUSED, UNAVAILABLE } from './error-codes.js'
import { DidAuthClientError } from './errors.js'
import { isText, parseFields, parseJson } from './json.js'
import { networkRefusal, orUnavailable, withTimeout } from './requests.js'

/** Errors in this form tell their code. It comes after what the caller accepts. */
export const PROBLEM = 'application/problem+json'

/** How long a service may take for an answer. */
const TIMEOUT_SECONDS = 8

/** A service, and how its requests are sent. */
export interface Service {
  /** Without a slash at its end. */
  readonly url: string
  readonly fetch: typeof globalThis.fetch
  /** Whether the browser sends tokens by itself. */
  readonly usesCookies?: boolean
}

/** A request. It is a POST unless it says otherwise. */
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
 * @throws DidAuthClientError of any code for refusals, UNAVAILABLE, PROTOCOL for what is no JSON; or the signal's
 * reason
 */
export async function callService(
  { url, fetch, usesCookies }: Service,
  { method = 'POST', path, body, headers, signal }: ServiceCall
): Promise<ServiceAnswer> {
  const what = `${method} ${url}${path}`
  return orUnavailable(what, signal, async () => {
    const response = await fetch(url + path, {
      method,
      headers: {
        Accept: `*/*, ${PROBLEM}`,
        ...(body && { 'Content-Type': 'application/json' }),
        ...headers
      },
      body: body ? JSON.stringify(body) : null,
      // Tokens and signatures go nowhere else.
      redirect: 'manual',
      signal: withTimeout(TIMEOUT_SECONDS, signal),
      ...(usesCookies && { credentials: 'include' })
    })
    if (!response.ok) throw await failureOf(response, what, body)
    const text = await response.text()
    const answer = parseJson(text)
    if (text && !answer)
      throw new DidAuthClientError(PROTOCOL, {
        message: `${what}: ${response.headers.get('Content-Type')} instead of JSON`
      })
    return { body: answer, headers: response.headers }
  })
}

/** What the service's codes mean, by their beginnings. */
const meanings = [
  [/^ERR_(CHALLENGE|SIGNATURE)/, CHALLENGE],
  [/^ERR_CROSS/, CROSS_ORIGIN],
  [/^ERR_(ACCESS|SESSION_E)/, NOT_SIGNED_IN],
  [/^ERR_(BUSINESS|CREDENTIAL|DI[DS])/, REFUSED]
] as const

/**
 * Tells what an answer with an error status means.
 *
 * @param what - for the message: what was asked
 * @param request - body of the request
 */
export async function failureOf(response: Response, what: string, request?: object): Promise<DidAuthClientError> {
  const { status, headers } = response
  const { code, title } = parseFields(parseJson(await response.text()))
  const text = isText(title) ? title.slice(0, 200) : ''
  const serverCode = isText(code) ? code : ''
  const retryAfterSeconds = Number(headers.get('Retry-After')) || undefined
  const details = {
    message: `${what}: ${status} ${text || headers.get('Content-Type')}`,
    status,
    serverCode,
    retryAfterSeconds
  }
  if (status === 429) return new DidAuthClientError(RATE_LIMITED, details)
  if (status >= 500 || status === 408) return new DidAuthClientError(UNAVAILABLE, details)
  const [, meaning = PROTOCOL] = meanings.find(([codes]) => codes.test(serverCode)) ?? []
  // What business logic says is written for users.
  const words = meaning === REFUSED && text ? text : undefined
  return new DidAuthClientError(meaning, { ...details, userMessage: networkRefusal(serverCode, request) ?? words })
}
