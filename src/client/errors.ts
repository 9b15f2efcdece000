/** What a user is told, by code: each text ends with what to do. */
const userMessages = {
  ERR_USER_REJECTED: 'You declined the request in your wallet. Try again, and confirm it there.',
  ERR_WALLET_BUSY: 'Your wallet is waiting for you already. Open it, finish what it asks, and try again.',
  ERR_NO_WALLET: 'No wallet was found. Install one, or open this page in the browser of your wallet.',
  ERR_WALLET: 'Your wallet gave no usable answer. Unlock it, check the account, and try again.',
  ERR_NOT_SIGNED_IN: 'You are not signed in. Sign in first.',
  ERR_CONTENT: 'The content cannot be used.',
  ERR_CONFLICT: 'It was changed elsewhere meanwhile. Load it again, and repeat your change.',
  ERR_SESSION_ENDED: 'Your session has ended. Sign in again.',
  ERR_CHALLENGE: 'Your signature was not accepted. Check the account in your wallet, and sign in again.',
  ERR_REFUSED: 'The service refused your request.',
  ERR_RATE_LIMITED: 'Too many requests. Wait a little, and try again.',
  ERR_UNAVAILABLE: 'The service cannot be reached now. Check your connection, and try again in a moment.',
  ERR_CROSS_ORIGIN: 'The service does not accept requests of this page. Tell those who run it.',
  ERR_PROTOCOL: 'The service gave an answer that this app does not understand. Tell those who run it.'
} as const

/** One code of the closed list of errors of the client. */
export type ClientErrorCode = keyof typeof userMessages

/** Why a session has ended. */
export type SessionEndReason = 'expired' | 'revoked' | 'reused' | 'loggedOut'

/** What is known of a failure. */
export interface ClientErrorDetails {
  /** For developers: what was done, and what came of it. Never a token. */
  message?: string | undefined
  /** Replaces the text for users. */
  userMessage?: string | undefined
  /** Replaces what the code says. */
  retryable?: boolean | undefined
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
  override readonly name = 'DidAuthClientError'
  readonly code: ClientErrorCode
  /** Whether the same call can succeed later without the user doing anything. */
  readonly retryable: boolean
  /** For users, in English: what happened and what to do. */
  readonly userMessage: string
  /** HTTP status of the answer, when there was one. */
  readonly status: number | undefined
  /** The service's own code, such as `ERR_CHALLENGE_USED`. */
  readonly serverCode: string | undefined
  /** Whole seconds after which a retry makes sense. */
  readonly retryAfterSeconds: number | undefined

  constructor(code: ClientErrorCode, details: ClientErrorDetails = {}) {
    const userMessage = details.userMessage ?? userMessages[code]
    super(details.message ?? userMessage, details.cause === undefined ? undefined : { cause: details.cause })
    this.code = code
    this.retryable = details.retryable ?? (code === 'ERR_UNAVAILABLE' || code === 'ERR_RATE_LIMITED')
    this.userMessage = userMessage
    this.status = details.status
    this.serverCode = details.serverCode
    this.retryAfterSeconds = details.retryAfterSeconds
  }
}

/** The user declined in the wallet (EIP-1193, code 4001). */
export class UserRejectedError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_USER_REJECTED', details)
  }
}

/** The wallet has a request open already (code -32002). */
export class WalletBusyError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_WALLET_BUSY', details)
  }
}

/** There is no wallet, or it has no account. */
export class NoWalletError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_NO_WALLET', details)
  }
}

/** The wallet failed, or answered what is no address, chain id or signature. */
export class WalletError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_WALLET', details)
  }
}

/** The call needs a session, and there is none. */
export class NotSignedInError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_NOT_SIGNED_IN', details)
  }
}

const endings: Readonly<Record<SessionEndReason, string>> = {
  expired: 'Your session has expired. Sign in again.',
  revoked: 'Your session was ended. Sign in again.',
  reused: 'Your session was ended to protect you, because its key was used twice. Sign in again.',
  loggedOut: 'You have signed out. Sign in again to go on.'
}

/** The session has ended, and its tokens are forgotten. */
export class SessionEndedError extends DidAuthClientError {
  /** `loggedOut`: here or in another tab; `reused`: its refresh token was used twice; `expired`; else `revoked`. */
  readonly reason: SessionEndReason

  constructor(reason: SessionEndReason, details?: ClientErrorDetails) {
    super('ERR_SESSION_ENDED', { userMessage: endings[reason], ...details })
    this.reason = reason
  }
}

/** The service did not accept the signature: of another account, for another domain, too late, or used. */
export class ChallengeError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_CHALLENGE', details)
  }
}

/** The service's business logic, or its rules of credentials, refused. `userMessage` is the service's own text. */
export class RefusedError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_REFUSED', details)
  }
}

/** Status 429. */
export class RateLimitedError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_RATE_LIMITED', details)
  }
}

/** The service cannot be reached, took too long, or answered 5xx. Sessions are kept. */
export class UnavailableError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_UNAVAILABLE', details)
  }
}

/** The service refuses the origin of this page: `trustedOrigins` of the service has to name it. */
export class CrossOriginError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_CROSS_ORIGIN', details)
  }
}

/** An answer that is not of this protocol: HTML, other JSON, a redirect, a path that is not there. */
export class ProtocolError extends DidAuthClientError {
  constructor(details?: ClientErrorDetails) {
    super('ERR_PROTOCOL', details)
  }
}
