import type { AccessTokenClaims } from './protocol/access-token.js'

/** Information that `requireDid` adds to a request in addition to `req.user`. */
export interface DidAuthInfo {
  /** The session that the access token belongs to; undefined for a token made elsewhere with the service's key. */
  sessionId: string | undefined
  /** The user's DID in lower case: keep accounts by it, because one DID has many spellings. */
  canonicalDid: string
  /**
   * The address that controls the DID, lower case with `0x`: to ban a key, compare it, because one key has a DID for
   * each network name. Undefined for a DID of another method, in a token made elsewhere with the service's key.
   */
  address: string | undefined
  /** Evidence that the user approved this request, behind `requireDid.approved`: message, signature and body. */
  approval?: { message: string; signature: string; rawBody: Uint8Array }
  /** The verified payload of the access token, frozen. */
  claims: AccessTokenClaims
}

declare global {
  // A namespace is what Express offers to extend it.
  namespace Express {
    interface User {
      /** The DID as received at login. Keep accounts by `req.auth.canonicalDid`, and ban keys by `req.auth.address`. */
      did: string
    }
    interface Request {
      /** The authenticated user, behind `requireDid`. */
      user?: User | undefined
      /** Session and claims, behind `requireDid`. */
      auth?: DidAuthInfo | undefined
    }
  }
}
