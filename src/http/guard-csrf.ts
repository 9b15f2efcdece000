import type { IncomingMessage } from 'node:http'
import { DidAuthError } from '../errors.js'

const SAFE_METHODS: ReadonlySet<string | undefined> = new Set(['GET', 'HEAD', 'OPTIONS'])

/**
 * Refuses an unsafe request that another site made a browser send.
 *
 * An origin that is trusted passes. Else the browser's own word counts, `Sec-Fetch-Site`. A request with neither header
 * comes from no browser.
 *
 * @throws DidAuthError ERR_CROSS_ORIGIN
 * @see Fetch Metadata Request Headers; OWASP Cross-Site Request Forgery Prevention, "Fetch Metadata"
 */
export function guardCsrf(req: IncomingMessage, trustedOrigins: ReadonlySet<string>): void {
  if (SAFE_METHODS.has(req.method)) return
  const { origin } = req.headers
  const site = req.headers['sec-fetch-site']
  if (origin !== undefined && trustedOrigins.has(origin)) return
  const isSameSite = site === undefined ? origin === undefined : site === 'same-origin' || site === 'none'
  if (!isSameSite || origin === 'null') throw new DidAuthError('ERR_CROSS_ORIGIN')
}
