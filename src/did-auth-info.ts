import { DidAuthError } from './errors.js'
import type { AccessTokenClaims } from './protocol/access-token.js'

/** Information about the user of a guarded request, in addition to the DID. */
export interface DidAuthInfo {
  /** Session of the access token. Undefined if another program issued the token with the service's key. */
  sessionId: string | undefined
  /** The user's DID, a did:ethr in lower case. Use it as the key of accounts: a did:ethr has many spellings. */
  canonicalDid: string
  /**
   * Address that controls the DID, lower case with `0x`. Use it to ban a key, because one key has a different DID on
   * each network. Undefined if the DID is not a `did:ethr`: in tokens of machines, or that another program issued.
   */
  address: string | undefined
  /** Evidence that the user approved this request (only behind `requireDid.approved`): message, signature and body. */
  approval?: { message: string; signature: string; rawBody: Uint8Array }
  /** The verified payload of the access token, frozen. */
  claims: AccessTokenClaims
}

/** The user of a request with a valid access token, as {@link AllowUser} receives it. */
export interface AdmittedUser {
  /** The verified payload of the access token, frozen. */
  readonly claims: AccessTokenClaims
  /** The DID as received at login, and its two forms for comparisons, as in {@link DidAuthInfo}. */
  readonly user: { readonly did: string } & Readonly<Pick<DidAuthInfo, 'canonicalDid' | 'address'>>
}

/**
 * Decides whether a user may make a request. Only `true` lets it pass; any other value is 403 ERR_FORBIDDEN.
 * @example
 * requireDid.with({ allow: ({ claims }) => claims.role === 'admin' })
 */
export type AllowUser = (admitted: AdmittedUser) => boolean | Promise<boolean>

/**
 * Asserts that options have only known names, and that `allow`, if it is present, is a function. A mistyped name must
 * not switch a check off.
 * @param names - all names that the caller may use
 * @throws TypeError at the call of the application
 */
export function assertOptions(options: object, names: Readonly<Record<string, true>>): void {
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(names, name))
  if (unknown !== undefined)
    throw new TypeError(`unknown option ${unknown}: the options are ${Object.keys(names).join(', ')}`)
  // An undefined value is probably a mistyped name, and must not let every user pass.
  if ('allow' in options && typeof options.allow !== 'function') throw new TypeError('allow needs a function')
}

/** Asserts that `allow` lets a user pass. @throws DidAuthError ERR_FORBIDDEN; any error that `allow` throws */
export async function assertAllowed(
  allow: AllowUser | undefined,
  { claims, canonicalDid, address }: Pick<DidAuthInfo, 'claims' | 'canonicalDid' | 'address'>
): Promise<void> {
  if (allow === undefined) return
  const isAllowed: unknown = await allow({ claims, user: { did: claims.sub, canonicalDid, address } })
  if (isAllowed !== true) throw new DidAuthError('ERR_FORBIDDEN', { reason: { check: 'allow', expected: 'true' } })
}
