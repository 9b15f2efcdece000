/** Host names of this machine for every resolver. */
const LOOPBACK = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/

/** Whether the host of a URL (without port) is this machine for browsers, which includes names below `localhost`. */
export function isLoopbackHost(hostname: string): boolean {
  return LOOPBACK.test(hostname) || hostname.endsWith('.localhost')
}

/**
 * Whether a value is a URL that others can neither read nor change in transit: https, or http on this machine. Names
 * below `localhost` do not count, because the resolver of a server may ask the network for them.
 */
export function isSecureUrl(value: unknown): value is string {
  const url = typeof value === 'string' ? parseUrl(value) : undefined
  return url?.protocol === 'https:' || (url?.protocol === 'http:' && LOOPBACK.test(url.hostname))
}

/** Parses a URL; undefined if it is invalid. `URL.canParse` of Node 20, once optimised, refuses letters such as ü. */
export function parseUrl(text: string): URL | undefined {
  try {
    return new URL(text)
  } catch {
    return undefined
  }
}

/** Parses a URL with the scheme http or https; undefined for any other text. */
export function parseHttpUrl(text: string): URL | undefined {
  const url = parseUrl(text)
  return url?.protocol === 'http:' || url?.protocol === 'https:' ? url : undefined
}

/**
 * Whether two texts are the same, or http(s) URLs that differ only in spelling: `https://a.example` and
 * `https://A.example:443/`. A slash after a longer path makes another URL.
 */
export function isSameUrl(left: string, right: unknown): boolean {
  if (left === right) return true
  const href = parseHttpUrl(left)?.href
  return href !== undefined && typeof right === 'string' && parseHttpUrl(right)?.href === href
}

/** Whether the claim `aud` names one of our URLs, or is a list of nothing else. */
export function isOwnAudience(aud: unknown, urls: readonly string[]): boolean {
  const listed: readonly unknown[] = Array.isArray(aud) ? aud : [aud]
  return listed.length > 0 && listed.every((value) => urls.some((url) => isSameUrl(url, value)))
}

/** Returns the URL of a service's route; undefined if `serviceUrl` is not an http(s) URL. */
export function createRouteUrl(serviceUrl: string, mountPath: string, path: string): string | undefined {
  const base = serviceUrl.replace(/\/+$/, '')
  const url = parseHttpUrl(base)
  if (url === undefined) return undefined
  // Express ignores case in mount paths.
  const hasMountPath = url.pathname.toLowerCase().endsWith(mountPath.toLowerCase())
  return `${base}${hasMountPath ? '' : mountPath}${path}`
}
