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
