/** Maximum number of path levels at which stale cookies are deleted. */
const MAX_LEVELS = 8

/** Maximum sum of the lengths of these paths: proxies refuse answers whose headers have more than 4 to 8 KiB. */
const MAX_PATHS_LENGTH = 1_536

/** Path that a cookie can have: printable ASCII without `;`, as long as browsers accept. @see RFC 6265bis */
const COOKIE_PATH = /^\/[\x21-\x3a\x3c-\x7e]{0,1022}$/

/** Values of `Sec-Fetch-Site` with which the answer may delete cookies. Only browsers send the header. */
const OWN_SITES: ReadonlySet<unknown> = new Set([undefined, 'same-origin', 'none'])

/** Expiry that makes a browser delete a cookie. */
const LONG_AGO = 'Thu, 01 Jan 1970 00:00:00 GMT'

/** Attributes of each cookie with a token. */
export const COOKIE_ATTRIBUTES = 'HttpOnly; Secure; SameSite=Strict'

/** Lists the values of a cookie in a `Cookie` header, as the client sent them. Several may have one name. */
export function listCookieValues(header: string | undefined, name: string): string[] {
  if (header === undefined) return []
  return header.split(';').flatMap((pair) => {
    const end = pair.indexOf('=')
    return end >= 0 && pair.slice(0, end).trim() === name ? [pair.slice(end + 1).trim()] : []
  })
}

/** Returns the headers `Set-Cookie` by which a browser deletes cookies at some paths. */
export function expireCookies(names: readonly string[], paths: readonly string[]): string[] {
  return paths.flatMap((path) =>
    names.map((name) => `${name}=; Path=${path}; Expires=${LONG_AGO}; ${COOKIE_ATTRIBUTES}`)
  )
}

/**
 * Lists the paths at which a request may have a stale cookie: `/`, the path of the request and each path above it, with
 * and without last slash. None for a page of another site, which must not delete cookies of its visitor.
 * @param originalUrl - path and query as the client sent them
 * @see RFC 6265bis, section 5.1.4: browsers send a cookie whose path the request path begins with
 */
export function listStalePaths(originalUrl: string, secFetchSite: unknown): string[] {
  if (!OWN_SITES.has(secFetchSite)) return []
  const [path = ''] = originalUrl.split(/[?#]/, 1)
  const segments = path
    .replace(/\/$/, '')
    .split('/')
    .slice(1, 1 + MAX_LEVELS)
  const levels = segments.map((_segment, index) => `/${segments.slice(0, index + 1).join('/')}`)
  const paths = ['/', ...levels.flatMap((level) => [level, `${level}/`])]
  let length = 0
  return [...new Set(paths)].filter((one) => COOKIE_PATH.test(one) && (length += one.length) <= MAX_PATHS_LENGTH)
}
