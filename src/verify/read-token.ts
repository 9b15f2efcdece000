import { DidAuthError } from '../errors.js'
import { assertSameSite } from '../protocol/cross-origin.js'

const SCHEME = /^(?:DIDAuth|Bearer) +([^ ]+)$/i

/** A request of the web (Workers, Bun, Deno) or of Node. */
export interface TokenRequest {
  readonly method?: string | undefined
  readonly headers:
    { get(name: string): string | null } | Readonly<Record<string, string | readonly string[] | undefined>>
}

/** How cookies are read. */
export interface CookieRule {
  /** Name of the cookie with the access token. */
  cookie: string
  trustedOrigins: ReadonlySet<string>
}

/**
 * The access token of a request: of its header `Authorization` with the scheme `DIDAuth` or `Bearer`, else of the
 * cookie of our services. A browser sends the cookie by itself, so it counts only where no other site made it do so.
 *
 * @throws DidAuthError ERR_ACCESS_TOKEN for another scheme, ERR_ACCESS_TOKEN_MISSING, ERR_DUPLICATE_COOKIE,
 *   ERR_CROSS_ORIGIN
 */
export function readToken(request: TokenRequest, { cookie, trustedOrigins }: CookieRule): string {
  const authorization = headerOf(request, 'authorization')
  const token = SCHEME.exec(authorization ?? '')?.[1]
  if (token !== undefined) return token
  const [value, ...others] = cookiesNamed(cookie, headerOf(request, 'cookie') ?? '')
  if (value === undefined) {
    if (authorization === undefined) throw new DidAuthError('ERR_ACCESS_TOKEN_MISSING')
    const reason = { check: 'Authorization', expected: 'DIDAuth <token> or Bearer <token>' }
    throw new DidAuthError('ERR_ACCESS_TOKEN', { reason })
  }
  const headers = { origin: headerOf(request, 'origin'), 'sec-fetch-site': headerOf(request, 'sec-fetch-site') }
  assertSameSite({ method: request.method, headers }, trustedOrigins)
  if (others.length > 0) throw new DidAuthError('ERR_DUPLICATE_COOKIE', { reason: { check: 'Cookie', cookie } })
  return value
}

function headerOf({ headers }: TokenRequest, name: string): string | undefined {
  if (isWebHeaders(headers)) return headers.get(name) ?? undefined
  const value = headers[name]
  return typeof value === 'string' ? value : value?.join(', ')
}

function isWebHeaders(headers: TokenRequest['headers']): headers is { get(name: string): string | null } {
  return typeof headers.get === 'function'
}

function cookiesNamed(name: string, header: string): string[] {
  return header.split(';').flatMap((pair) => {
    const [key = '', ...value] = pair.split('=')
    return key.trim() === name && value.length > 0 ? [value.join('=').trim()] : []
  })
}
