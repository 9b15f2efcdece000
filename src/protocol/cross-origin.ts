import { DidAuthError } from '../errors.js'
import { parseUrl } from './parse-url.js'

/** The longest name of a host, so that no other text of a request gets into the log. */
const MAX_HOST_LENGTH = 253

/** The values of `Sec-Fetch-Site`, so that a log shows no other text of a request. */
const SITES: ReadonlySet<unknown> = new Set(['cross-site', 'same-site', 'same-origin', 'none'])

const SAFE_METHODS: ReadonlySet<string | undefined> = new Set(['GET', 'HEAD', 'OPTIONS'])

/** A request, with the headers that name its origin. */
export interface RequestOrigin {
  readonly method?: string | undefined
  readonly headers: { origin?: string | undefined; 'sec-fetch-site'?: string | readonly string[] | undefined }
}

/** Whether a method changes nothing. */
export function isSafeMethod(method: string | undefined): boolean {
  return SAFE_METHODS.has(method)
}

/**
 * Refuses an unsafe request that another site made a browser send. An origin that is trusted passes. Otherwise
 * `Sec-Fetch-Site` decides, which only the browser can set. A request with neither header is not from a browser.
 * @throws DidAuthError ERR_CROSS_ORIGIN
 * @see Fetch Metadata Request Headers; OWASP Cross-Site Request Forgery Prevention, "Fetch Metadata"
 */
export function assertSameSite({ method, headers }: RequestOrigin, trustedOrigins: ReadonlySet<string>): void {
  if (isSafeMethod(method)) return
  const { origin, 'sec-fetch-site': site } = headers
  if (origin !== undefined && trustedOrigins.has(origin)) return
  const isSameSite = site === undefined ? origin === undefined : site === 'same-origin' || site === 'none'
  if (isSameSite && origin !== 'null') return
  const host = parseUrl(origin ?? '')?.host.slice(0, MAX_HOST_LENGTH)
  const got = origin === undefined ? 'no Origin' : origin === 'null' ? 'the null Origin' : (host ?? 'another Origin')
  const secFetchSite = SITES.has(site) ? site : undefined
  const reason = { check: 'origin', expected: [...trustedOrigins], got, secFetchSite, option: 'trustedOrigins' }
  throw new DidAuthError('ERR_CROSS_ORIGIN', { reason })
}
