import type { DidAuthErrorCode } from './errors.js'
import type { SelectiveDisclosureResponse } from './protocol/selective-disclosure.js'
import type { Session } from './protocol/session.js'

/** Where log lines go: pino's order of arguments, which `console` understands as well. */
export interface Logger {
  /** Receives a line for each refused request, with the check that refused it. Absent: these lines are dropped. */
  debug?(fields: Record<string, unknown>, message: string): void
  info(fields: Record<string, unknown>, message: string): void
  warn(fields: Record<string, unknown>, message: string): void
  error(fields: Record<string, unknown>, message: string): void
}

/** A user's DID in its two comparable forms. */
export interface UserIdentity {
  /** The DID in lower case: keep accounts by it, because one DID has many spellings. */
  canonicalDid: string
  /** The address whose key controls the DID, lower case with `0x`: one key has a DID for each network name. */
  address: string
}

/**
 * Business logic at login; receives the DID as received. It may be async. Throwing refuses with the error's message,
 * returning exactly `false` refuses, returning `{ tokenClaims }` adds claims (at most 1 KiB) to the access tokens.
 *
 * A builtin error such as TypeError, and one of the system (`errno`, `syscall`), of Node (a `code` that begins with `ERR_`)
 * or of a database (a SQLSTATE), is a failure and not a refusal: it is logged and answered 500. A `code` of your own is a
 * refusal. Look users up by `user.canonicalDid`; ban a key by `user.address`.
 */
export type AuthenticationBusinessLogic = (did: string, user: UserIdentity) => unknown
/**
 * Business logic at sign up; its result and errors count as those of {@link AuthenticationBusinessLogic}. It decides
 * which issuers of credentials are trusted, as the option `trustedIssuers` does: compare `canonicalDid(credential.issuer)`.
 */
export type SignupBusinessLogic = (response: SelectiveDisclosureResponse, user: UserIdentity) => unknown
/**
 * Business logic at each refresh, asked before anything changes. Its errors count as those of
 * {@link AuthenticationBusinessLogic}; a refusal revokes the session. `{ tokenClaims }` replaces the claims of the session.
 */
export type RefreshBusinessLogic = (did: string, session: Session & UserIdentity) => unknown

/** Something that an operator may want to count, or to be notified of. Fixed fields, never a secret. */
export interface SecurityEvent {
  type:
    | 'login'
    | 'signup'
    | 'proof-refused'
    | 'refresh-token-reused'
    | 'session-revoked'
    | 'cross-origin-refused'
    | 'too-many-requests'
    | 'sessions-evicted'
    | 'signer-address-changed'
  /** Seconds since the Unix epoch. */
  atSeconds: number
  /** The user's DID, as received. */
  did?: string
  sessionId?: string
  /** The code of what was answered. */
  code?: DidAuthErrorCode
  /** An IPv4 address, or the /64 of an IPv6 address. */
  clientNetwork?: string
  /** Of `sessions-evicted`: how many. */
  count?: number
  /** Of `signer-address-changed`: the address of the key that signs now. */
  address?: string
}

/** Receives each {@link SecurityEvent}; what it throws is logged and changes nothing. */
export type OnSecurityEvent = (event: SecurityEvent) => unknown
