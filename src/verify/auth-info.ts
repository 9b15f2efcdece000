import type { DidAuthInfo } from '../did-auth-info.js'
import { readField } from '../protocol/json.js'
import { parseHttpUrl } from '../protocol/parse-url.js'
import { readHeader, type TokenRequest } from './token-request.js'

/** Header with a token. Another scheme, such as the password of a proxy, has none. */
const TOKEN = /^(?:DIDAuth|Bearer) +([^ ]+)$/i

/** Information about a token, as the SDKs of the Model Context Protocol read it from `req.auth`. */
export interface AuthInfo {
  /** The token after `DIDAuth` or `Bearer`; empty if it came in a cookie. */
  token: string
  /** Claim `client_id`: the DID of a machine, or the `serviceUrl` where a user logged in. Else the DID. */
  clientId: string
  /** Entries of the claim `scope`, which business logic can add; empty without it. */
  scopes: string[]
  /** Claim `exp`, in seconds since 1970. */
  expiresAt: number
  /** Claim `aud`, if it is an http(s) URL. */
  resource?: URL
  /** The user: `did`, and the members of {@link DidAuthInfo}. */
  extra: { did: string } & Omit<DidAuthInfo, 'approval'>
}

/**
 * Returns what MCP SDKs expect at `req.auth`, for a request behind `requireToken` or `requireDid`.
 * @throws TypeError for a request without a user
 * @example
 * await transport.handleRequest(Object.assign(req, { auth: toAuthInfo(req) }), res, req.body)
 */
export function toAuthInfo(req: TokenRequest & { readonly auth?: unknown }): AuthInfo {
  const { auth } = req
  if (!isDidAuthInfo(auth)) {
    throw new TypeError('toAuthInfo(req) needs a request behind requireToken or requireDid, once per request')
  }
  const { claims, canonicalDid, address, sessionId } = auth
  const { sub: did, client_id: clientId, scope } = claims
  const resource = parseHttpUrl(claims.aud)
  return {
    token: TOKEN.exec(readHeader(req, 'authorization') ?? '')?.[1] ?? '',
    clientId: typeof clientId === 'string' ? clientId : did,
    scopes: typeof scope === 'string' ? scope.split(' ').filter((one) => one !== '') : [],
    expiresAt: claims.exp,
    ...(resource !== undefined && { resource }),
    extra: { did, canonicalDid, address, sessionId, claims }
  }
}

/** Whether a value is what a guard of this package sets as `req.auth`. */
function isDidAuthInfo(auth: unknown): auth is DidAuthInfo {
  return (
    typeof readField(auth, 'canonicalDid') === 'string' &&
    typeof readField(readField(auth, 'claims'), 'sub') === 'string'
  )
}
