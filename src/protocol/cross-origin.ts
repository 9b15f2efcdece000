import { DidAuthError } from '../errors.js'
import { parseUrl } from './parse-url.js'

/** Maximum length of a host in a log line: the longest valid host name. */
const MAX_HOST_LENGTH = 253

/** Defined values of `Sec-Fetch-Site`. Only these are logged. */
const SITES: ReadonlySet<unknown> = new Set(['cross-site', 'same-site', 'same-origin', 'none'])

const SAFE_METHODS: ReadonlySet<string | undefined> = new Set(['GET', 'HEAD', 'OPTIONS'])

/** Method and headers that show the origin of a request. */
export interface RequestOrigin {
  readonly method?: string | undefined
  readonly headers: {
    origin?: string | undefined
    'sec-fetch-site'?: string | readonly string[] | undefined
    upgrade?: string | readonly string[] | undefined
  }
}

/** Whether a method is safe: its requests change nothing. */
export function isSafeMethod(method: string | undefined): boolean {
  return SAFE_METHODS.has(method)
}

/** Whether a request changes nothing. A GET that opens a WebSocket is the beginning of messages that may. */
function isSafeRequest({ method, headers: { upgrade = '' } }: RequestOrigin): boolean {
  return isSafeMethod(method) && !/websocket/i.test(String(upgrade))
}

/**
 * Asserts that no other site made a browser send an unsafe request. A trusted `Origin` passes. Otherwise
 * `Sec-Fetch-Site` decides, because pages cannot set it. A request with neither header is not from a browser. With
 * `Referrer-Policy: no-referrer`, browsers send `Origin: null` and `same-origin` with forms of our own pages.
 * @param isUnsafe - whether the request is checked; by default one whose method is unsafe, or that opens a WebSocket
 * @throws DidAuthError ERR_CROSS_ORIGIN
 * @see Fetch Metadata Request Headers; OWASP Cross-Site Request Forgery Prevention, "Fetch Metadata"
 */
export function assertSameSite(
  request: RequestOrigin,
  trustedOrigins: ReadonlySet<string>,
  isUnsafe = !isSafeRequest(request)
): void {
  if (!isUnsafe) return
  const { origin, 'sec-fetch-site': site } = request.headers
  if (origin !== undefined && trustedOrigins.has(origin)) return
  if (site === undefined ? origin === undefined : site === 'same-origin' || (site === 'none' && origin !== 'null'))
    return
  const host = parseUrl(origin ?? '')?.host.slice(0, MAX_HOST_LENGTH)
  const got = origin === undefined ? 'no Origin' : origin === 'null' ? 'the null Origin' : (host ?? 'another Origin')
  const secFetchSite = SITES.has(site) ? site : undefined
  const reason = { check: 'origin', expected: [...trustedOrigins], got, secFetchSite, option: 'trustedOrigins' }
  throw new DidAuthError('ERR_CROSS_ORIGIN', { reason })
}
