import { UNAVAILABLE } from './error-codes.js'
import { DidAuthClientError } from './errors.js'
import { isText, parseFields } from './json.js'

export const withoutSlash = (url: string): string => url.replace(/\/+$/, '')

/**
 * The URL of a service, without a slash at its end.
 *
 * @throws TypeError when it is none with http or https: the origin of an app's own scheme is `null`, as that of any other
 */
export function parseServiceUrl(url: string): string {
  if (!/^https?:\/\/[^/]/.test(url)) throw new TypeError(`${url}: not http(s)`)
  return withoutSlash(url)
}

/** A signal that is aborted after some seconds, or with the caller's own. */
export function withTimeout(seconds: number, signal?: AbortSignal): AbortSignal {
  const timeout = AbortSignal.timeout(seconds * 1000)
  return signal ? AbortSignal.any([signal, timeout]) : timeout
}

/**
 * What a request comes to.
 *
 * @param what - for the message: what was asked
 * @throws the signal's reason; UNAVAILABLE for what is no error of the client, as when the network fails
 */
export async function orUnavailable<T>(
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
      : new DidAuthClientError(UNAVAILABLE, { message: `${what}: ${String(cause)}`, cause })
  }
}

/**
 * What users are told where a service does not accept the network of their DID; undefined for other refusals.
 *
 * @param request - body of the request, which has the DID
 */
export function networkRefusal(serverCode: string | undefined, request: unknown): string | undefined {
  const { did } = parseFields(request)
  return isText(did) && serverCode === 'ERR_DID_UNSUPPORTED'
    ? `The service refuses the network of ${did}. Tell those who run it.`
    : undefined
}

/** Whether a challenge or token came too late, or a challenge was used: another one may be accepted. */
export function isOutdated(error: unknown, mayBeOld?: unknown): boolean {
  const { code, serverCode } = parseFields(error)
  return code === 'CHALLENGE' && (!!mayBeOld || /_(EXPIRED|USED)$/.test(String(serverCode)))
}
