import { DidAuthError } from '../errors.js'

/** Scheme at the beginning of `Authorization`. @see RFC 9110, sections 5.6.2 and 11.1 */
const SCHEME = /^[!#$%&'*+.^`|~\w-]+/

/** Scheme that a log may name: it is short, and something follows, so that it cannot be a token without scheme. */
const NAMED_SCHEME = /^[a-z][a-z\d-]{0,31}(?= )/i

/** Scheme of tokens, such as `DIDAuth`. */
export type TokenScheme = 'DIDAuth' | 'Bearer'

/** Whether `Authorization` has one of the schemes. Another scheme, such as a proxy's password, is no token. */
export function hasTokenScheme(authorization: string | undefined, schemes: readonly TokenScheme[]): boolean {
  const scheme = SCHEME.exec(authorization ?? '')?.[0].toLowerCase()
  return schemes.some((one) => one.toLowerCase() === scheme)
}

/**
 * Reads the token after one of the schemes; undefined without a header, or for an empty one.
 * @throws DidAuthError ERR_ACCESS_TOKEN_MISSING for another scheme, which the reason names; ERR_ACCESS_TOKEN for one of
 * the schemes without exactly one token
 */
export function readHeaderToken(
  authorization: string | undefined,
  schemes: readonly TokenScheme[]
): string | undefined {
  if (authorization === undefined || authorization === '') return undefined
  const reason = { check: 'Authorization', expected: schemes.map((scheme) => `${scheme} <token>`).join(' or ') }
  if (!hasTokenScheme(authorization, schemes)) {
    const got = NAMED_SCHEME.exec(authorization)?.[0] ?? 'another scheme'
    throw new DidAuthError('ERR_ACCESS_TOKEN_MISSING', { reason: { ...reason, got } })
  }
  const token = /^[^ ]+ +([^ ]+)$/.exec(authorization)?.[1]
  if (token === undefined) throw new DidAuthError('ERR_ACCESS_TOKEN', { reason })
  return token
}
