/**
 * The closed list of error codes, each with the fixed text that its client is shown.
 *
 * A code is stable: clients may switch on it. A text is for people. The HTTP status of each code lives in
 * `error-statuses.ts`, so that what is wrong and how it travels stay apart.
 */
export const errorTexts = {
  ERR_CONFIG: 'Invalid configuration',
  ERR_REQUEST: 'Invalid request',
  ERR_JSON: 'Malformed JSON',
  ERR_TOO_LARGE: 'Request too large',
  ERR_REQUEST_TIMEOUT: 'Request timeout',
  ERR_IDEMPOTENCY_KEY: 'Invalid Idempotency-Key',
  ERR_CROSS_ORIGIN: 'Cross-origin request refused',
  ERR_TOO_MANY_REQUESTS: 'Too many requests',
  ERR_APPROVAL: 'Approval needed',
  ERR_DID: 'Invalid DID',
  ERR_DID_UNSUPPORTED: 'Unsupported DID',
  ERR_SIGNATURE: 'Invalid signature',
  ERR_CHALLENGE: 'Invalid challenge response',
  ERR_CHALLENGE_EXPIRED: 'Invalid challenge response: expired',
  ERR_CHALLENGE_USED: 'Invalid challenge response: used',
  ERR_MESSAGE: 'Invalid sign-in message',
  ERR_MESSAGE_DOMAIN: 'Sign-in message for another site',
  ERR_NETWORK: 'Network not accepted',
  ERR_CONTRACT_ABSENT: 'No contract at this address',
  ERR_CONTRACT_SIGNATURE: 'Refused by the contract',
  ERR_CREDENTIAL: 'Invalid credential',
  ERR_CREDENTIAL_EXPIRED: 'Expired credential',
  ERR_CREDENTIAL_ISSUER: 'Unproved credential issuer',
  ERR_DISCLOSURE_MISSING: 'Missing credentials or claims',
  ERR_BUSINESS_LOGIC: 'Refused',
  ERR_DUPLICATE_COOKIE: 'Duplicate cookie',
  ERR_ACCESS_TOKEN_MISSING: 'Missing access token',
  ERR_ACCESS_TOKEN: 'Invalid access token',
  ERR_ACCESS_TOKEN_EXPIRED: 'Expired access token',
  ERR_SESSION_ENDED: 'Session ended',
  ERR_RESOURCE: 'Unknown resource',
  ERR_SESSION_NOT_FOUND: 'Session not found',
  ERR_REFRESH_TOKEN: 'Invalid refresh token',
  ERR_REFRESH_TOKEN_REUSED: 'Refresh token used twice: session revoked',
  ERR_BUSY: 'Busy, try again',
  ERR_STORE: 'Store unavailable, try again',
  ERR_RESOLVER: 'DID resolver unavailable, try again',
  ERR_CHAIN: 'Chain unavailable, try again',
  ERR_KEYS: 'Keys unavailable, try again',
  ERR_SIGNER: 'Signer unavailable, try again',
  ERR_BUSINESS_LOGIC_TIMEOUT: 'Timed out, try again',
  ERR_INTERNAL: 'Internal error'
} as const

/** One code of the closed list in {@link errorTexts}. */
export type DidAuthErrorCode = keyof typeof errorTexts

export interface DidAuthErrorOptions {
  /** Replaces the fixed text: only for text that the application itself wrote (business logic, configuration). */
  message?: string
  /** The underlying error. For the log only, never shown to a client. */
  cause?: unknown
  /** Which check refused, and what it expected. For the log only, never shown to a client. */
  reason?: RefusalReason
  /** What the client needs to continue: further fields of an answer in the form of RFC 9457. */
  details?: Readonly<Record<string, string>>
  /** Whole seconds after which a retry makes sense, sent as `Retry-After`. */
  retryAfterSeconds?: number
}

/**
 * Why a request was refused, for people who read the log at debug.
 *
 * It has what the service expects, the kind of value that it received, and parts of it that are bounded and public: the
 * host of an origin, the issuer of a token, the network of a DID. It never has a secret, signature, challenge or token.
 */
export interface RefusalReason {
  /** The check that refused: `signer`, `aud`, `origin`. */
  readonly check: string
  readonly [field: string]: string | number | boolean | readonly string[] | undefined
}

/** The only error class: everything that this package refuses is one of these, told apart by `code`. */
export class DidAuthError extends Error {
  override readonly name = 'DidAuthError'
  readonly code: DidAuthErrorCode
  readonly retryAfterSeconds: number | undefined
  readonly details: Readonly<Record<string, string>> | undefined
  /** For the log only. */
  readonly reason: RefusalReason | undefined

  constructor(code: DidAuthErrorCode, options: DidAuthErrorOptions = {}) {
    super(options.message ?? errorTexts[code], options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.retryAfterSeconds = options.retryAfterSeconds
    this.details = options.details
    this.reason = options.reason
  }
}
