/** One code of the closed list of errors of the client. */
export type ClientErrorCode =
  | 'ERR_USER_REJECTED'
  | 'ERR_WALLET_BUSY'
  | 'ERR_NO_WALLET'
  | 'ERR_WALLET'
  | 'ERR_NOT_SIGNED_IN'
  | 'ERR_SESSION_ENDED'
  | 'ERR_CHALLENGE'
  | 'ERR_REFUSED'
  | 'ERR_CONTENT'
  | 'ERR_CONFLICT'
  | 'ERR_RATE_LIMITED'
  | 'ERR_UNAVAILABLE'
  | 'ERR_CROSS_ORIGIN'
  | 'ERR_PROTOCOL'

/** Why a session has ended. */
export type SessionEndReason = 'expired' | 'revoked' | 'reused' | 'loggedOut'

/** What is known of a failure. */
export interface ClientErrorDetails {
  /** For developers: what was done, and what came of it. Never a token. */
  message?: string | undefined
  /** Replaces the text for users. */
  userMessage?: string | undefined
  /** HTTP status of the answer. */
  status?: number | undefined
  /** The service's own code, such as `ERR_CHALLENGE_USED`. */
  serverCode?: string | undefined
  /** Whole seconds, from `Retry-After`. */
  retryAfterSeconds?: number | undefined
  cause?: unknown
}

/**
 * Everything that the client throws is one of these, except what the caller's own signal, storage or callback threw. The
 * classes and their codes correspond one to one; across bundles, compare `code`.
 *
 * @example
 * try {
 *   await auth.logIn()
 * } catch (error) {
 *   if (error instanceof UserRejectedError) return
 *   show(error instanceof DidAuthClientError ? error.userMessage : String(error))
 * }
 */
export class DidAuthClientError extends Error {
  declare readonly name: 'DidAuthClientError'
  declare readonly code: ClientErrorCode
  /** Whether the same call can succeed later without the user doing anything. */
  declare readonly retryable: boolean
  /** For users, in English: what happened and what to do. */
  declare readonly userMessage: string
  /** HTTP status of the answer, when there was one. */
  declare readonly status: number | undefined
  /** The service's own code, such as `ERR_CHALLENGE_USED`. */
  declare readonly serverCode: string | undefined
  /** Whole seconds after which a retry makes sense. */
  declare readonly retryAfterSeconds: number | undefined

  /**
   * @param userMessage - what users are told, unless the details say something else
   * @param retryable - see there
   */
  constructor(
    code: ClientErrorCode,
    userMessage: string,
    { cause, message = userMessage, ...details }: ClientErrorDetails = {},
    retryable = false
  ) {
    super(message, { cause })
    Object.assign(this, { name: 'DidAuthClientError', code, retryable, ...details })
    this.userMessage = details.userMessage ?? userMessage
  }
}

/** The user declined in the wallet (EIP-1193, code 4001). */
export class UserRejectedError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_USER_REJECTED', 'You declined. Confirm in your wallet, and try again.', details)
  }
}

/** The wallet has a request open already (code -32002). */
export class WalletBusyError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_WALLET_BUSY', 'Your wallet is busy. Finish there, and try again.', details)
  }
}

/** There is no wallet, or it has no account. */
export class NoWalletError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_NO_WALLET', 'No wallet was found. Install one, and try again.', details)
  }
}

/** The wallet failed, or answered what is no address, chain id or signature. */
export class WalletError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_WALLET', 'Your wallet failed. Unlock it, and try again.', details)
  }
}

/** The call needs a session, and there is none. */
export class NotSignedInError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_NOT_SIGNED_IN', 'You are not signed in. Sign in again.', details)
  }
}

const endings = {
  expired: 'has expired',
  revoked: 'was ended',
  reused: 'was ended: its key was used twice',
  loggedOut: 'has ended: you signed out'
}

/** The session has ended, and its tokens are forgotten. */
export class SessionEndedError extends DidAuthClientError {
  /** `loggedOut`: here or in another tab; `reused`: its refresh token was used twice; `expired`; else `revoked`. */
  readonly reason: SessionEndReason

  constructor(reason: SessionEndReason, details?: ClientErrorDetails) {
    super('ERR_SESSION_ENDED', `Your session ${endings[reason]}. Sign in again.`, details)
    this.reason = reason
  }
}

/** The service did not accept the signature: of another account, for another domain, too late, or used. */
export class ChallengeError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_CHALLENGE', 'Your signature was refused. Check account and page, and try again.', details)
  }
}

/** The service's business logic, or its rules of credentials, refused. `userMessage` is the service's own text. */
export class RefusedError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_REFUSED', 'The service refused. Check your data, and try again.', details)
  }
}

/** Status 429. */
export class RateLimitedError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_RATE_LIMITED', 'Too many requests. Wait, and try again.', details, true)
  }
}

/**
 * The service cannot be reached, took too long, or answered 5xx. Sessions are kept. A page is not told whether the network
 * failed, or whether CORS forbids it to read the answer.
 */
export class UnavailableError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super(
      'ERR_UNAVAILABLE',
      'The service cannot be reached, or not from this page. Check your connection, and try again.',
      details,
      true
    )
  }
}

/** The service refuses the origin of this page: `trustedOrigins` of the service has to name it. */
export class CrossOriginError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_CROSS_ORIGIN', 'The service refused this page. Tell those who run it.', details)
  }
}

/** An answer of a route of ours that is not of this protocol: HTML, other JSON, a redirect, a path that is not there. */
export class ProtocolError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_PROTOCOL', 'The service failed. Tell those who run it.', details)
  }
}
