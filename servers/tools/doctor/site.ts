/** Whether a page of an origin is on the site of a URL, so that browsers send its SameSite cookies there. */
export function isSameSite(origin: string, url: URL): boolean {
  return findSite(origin) === findSite(url.origin)
}

/**
 * Returns the site of an origin for SameSite: scheme and registrable domain. Public suffixes of two labels are
 * recognised by their form (`co.uk`, `com.br`), because the complete list is larger than this program.
 *
 * @see RFC 6265bis, section 5.2; HTML Standard, "schemelessly same site" and "same site"
 */
export function findSite(origin: string): string {
  const { protocol, hostname } = new URL(origin)
  const labels = hostname.split('.')
  if (/^[\d.]+$|^\[/.test(hostname) || labels.length < 2) return `${protocol}//${hostname}`
  const isSecondLevel = /^(?:ac|co|com|edu|gob|gov|net|org)$/.test(labels.at(-2) ?? '') && labels.at(-1)?.length === 2
  return `${protocol}//${labels.slice(isSecondLevel ? -3 : -2).join('.')}`
}
