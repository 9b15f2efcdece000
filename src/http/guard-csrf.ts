import type { IncomingMessage } from 'node:http'
import { assertSameSite } from '../protocol/cross-origin.js'

/** Whether an image, a form or a script of another site made a browser send it. @see Fetch Metadata Request Headers */
export function isForeignPage({ headers }: IncomingMessage, trustedOrigins: ReadonlySet<string>): boolean {
  const site = headers['sec-fetch-site']
  if (site !== 'cross-site' && site !== 'same-site') return false
  return headers.origin === undefined || !trustedOrigins.has(headers.origin)
}

/** {@link assertSameSite} of a request. @throws DidAuthError ERR_CROSS_ORIGIN */
export function guardCsrf({ method, headers }: IncomingMessage, trustedOrigins: ReadonlySet<string>): void {
  assertSameSite({ method, origin: headers.origin, site: headers['sec-fetch-site'] }, trustedOrigins)
}
