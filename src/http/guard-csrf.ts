import type { IncomingMessage } from 'node:http'
import { DidAuthError } from '../errors.js'

/** The values of `Sec-Fetch-Site`, so that a log shows no other text of a request. */
const SITES: ReadonlySet<unknown> = new Set(['cross-site', 'same-site', 'same-origin', 'none'])

const SAFE_METHODS: ReadonlySet<string | undefined> = new Set(['GET', 'HEAD', 'OPTIONS'])

/** Whether a request changes nothing, by its method. */
export function isSafeMethod(req: IncomingMessage): boolean {
  return SAFE_METHODS.has(req.method)
}

/**
 * Whether a page of another site made a browser send a request: an image, a form, a script there.
 *
 * @see Fetch Metadata Request Headers
 */
export function isForeignPage(req: IncomingMessage, trustedOrigins: ReadonlySet<string>): boolean {
  const site = req.headers['sec-fetch-site']
  if (site !== 'cross-site' && site !== 'same-site') return false
  return req.headers.origin === undefined || !trustedOrigins.has(req.headers.origin)
}

/**
 * Refuses an unsafe request that another site made a browser send.
 *
 * An origin that is trusted passes. Otherwise `Sec-Fetch-Site` decides, which only the browser can set. A request with
 * neither header does not come from a browser.
 *
 * @throws DidAuthError ERR_CROSS_ORIGIN
 * @see Fetch Metadata Request Headers; OWASP Cross-Site Request Forgery Prevention, "Fetch Metadata"
 */
export function guardCsrf(req: IncomingMessage, trustedOrigins: ReadonlySet<string>): void {
  if (isSafeMethod(req)) return
  const { origin } = req.headers
  const site = req.headers['sec-fetch-site']
  if (origin !== undefined && trustedOrigins.has(origin)) return
  const isSameSite = site === undefined ? origin === undefined : site === 'same-origin' || site === 'none'
  if (isSameSite && origin !== 'null') return
  const got = `${origin === undefined ? 'no' : origin === 'null' ? 'the null' : 'another'} Origin`
  const reason = {
    check: 'origin',
    expected: [...trustedOrigins],
    got,
    secFetchSite: SITES.has(site) ? site : undefined
  }
  throw new DidAuthError('ERR_CROSS_ORIGIN', { reason: { ...reason, option: 'trustedOrigins' } })
}
