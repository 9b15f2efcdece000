/**
 * The closed list of error codes, each with its HTTP status and its fixed text for clients. Clients may switch on the
 * code. Clients drop their tokens after a 401, so 401 is used only for refused proofs.
 *
 * The third member says how a refused proof is charged, see {@link RefusalCharge}.
 */
const errors = {
  ERR_CONFIG: [500, 'Invalid configuration'],
  ERR_REQUEST: [401, 'Invalid request'],
  ERR_INVALID: [400, 'Invalid input'],
  ERR_JSON: [400, 'Malformed JSON'],
  ERR_TOO_LARGE: [413, 'Request too large'],
  ERR_REQUEST_TIMEOUT: [408, 'Request timeout'],
  ERR_IDEMPOTENCY_KEY: [400, 'Invalid Idempotency-Key'],
  ERR_CROSS_ORIGIN: [403, 'Cross-origin request refused'],
  ERR_TOO_MANY_REQUESTS: [429, 'Too many requests'],
  ERR_FORBIDDEN: [403, 'Forbidden to this user'],
  ERR_APPROVAL: [403, 'Approval needed', 'unproved'],
  ERR_DID: [401, 'Invalid DID'],
  ERR_DID_UNSUPPORTED: [401, 'Unsupported DID'],
  ERR_SIGNATURE: [401, 'Invalid signature', 'unproved'],
  ERR_CHALLENGE: [401, 'Invalid challenge response', 'unproved'],
  ERR_CHALLENGE_EXPIRED: [401, 'Invalid challenge response: expired', 'proved'],
  ERR_CHALLENGE_USED: [401, 'Invalid challenge response: used', 'proved'],
  ERR_MESSAGE: [401, 'Invalid sign-in message', 'unproved'],
  ERR_MESSAGE_DOMAIN: [401, 'Sign-in message for another site', 'unproved'],
  ERR_NETWORK: [401, 'Network not accepted', 'unproved'],
  ERR_CONTRACT_ABSENT: [401, 'No contract at this address', 'unproved'],
  ERR_CONTRACT_SIGNATURE: [401, 'Refused by the contract', 'unproved'],
  ERR_CREDENTIAL: [401, 'Invalid credential', 'unproved'],
  ERR_CREDENTIAL_EXPIRED: [401, 'Expired credential', 'unproved'],
  ERR_CREDENTIAL_ISSUER: [401, 'Unproved credential issuer', 'unproved'],
  ERR_CREDENTIAL_REVOKED: [401, 'Revoked credential', 'proved'],
  ERR_DISCLOSURE_MISSING: [401, 'Missing credentials or claims', 'proved'],
  ERR_BUSINESS_LOGIC: [401, 'Refused'],
  ERR_DUPLICATE_COOKIE: [401, 'Duplicate cookie'],
  ERR_ACCESS_TOKEN_MISSING: [401, 'Missing access token'],
  ERR_ACCESS_TOKEN: [401, 'Invalid access token'],
  ERR_ACCESS_TOKEN_EXPIRED: [401, 'Expired access token'],
  ERR_SESSION_ENDED: [401, 'Session ended'],
  ERR_DEVICE_PROOF: [401, 'Invalid device proof', 'proved'],
  ERR_DEVICE_NONCE: [401, 'Device proof needs a new nonce', 'proved'],
  ERR_RESOURCE: [400, 'Unknown resource'],
  ERR_CLIENT_ASSERTION: [401, 'Invalid client assertion', 'unproved'],
  ERR_GRANT_TYPE: [400, 'Unsupported grant type'],
  ERR_SESSION_NOT_FOUND: [404, 'Session not found'],
  ERR_REFRESH_TOKEN: [401, 'Invalid refresh token'],
  ERR_REFRESH_TOKEN_REUSED: [401, 'Refresh token used twice: session revoked'],
  ERR_BUSY: [503, 'Busy, try again'],
  ERR_STORE: [503, 'Store unavailable, try again'],
  ERR_RESOLVER: [503, 'DID resolver unavailable, try again', 'unproved'],
  ERR_CREDENTIAL_STATUS: [503, 'Credential status unavailable, try again', 'proved'],
  ERR_CHAIN: [503, 'Chain unavailable, try again', 'unproved'],
  ERR_KEYS: [503, 'Keys unavailable, try again'],
  ERR_ENDED_SESSIONS: [503, 'Ended sessions unknown, try again'],
  ERR_SIGNER: [503, 'Signer unavailable, try again'],
  ERR_BUSINESS_LOGIC_TIMEOUT: [503, 'Timed out, try again'],
  ERR_INTERNAL: [500, 'Internal error']
} as const satisfies Record<string, readonly [status: number, text: string, charge?: RefusalCharge]>

/**
 * How a login that was refused by a code is charged. `unproved`: nothing was proved and no challenge consumed, so the
 * same body can be sent again; it is charged to the client network, and to its budget for the DID. `proved`: the
 * signature was valid; it is charged to the client network only.
 */
export type RefusalCharge = 'unproved' | 'proved'

/** The text of each code, in English, for people. */
export const errorTexts = createColumn(([, text]) => text)

/** One code of the closed list. */
export type DidAuthErrorCode = keyof typeof errorTexts

/** The HTTP status of each code. */
export const errorStatuses: Readonly<Record<DidAuthErrorCode, number>> = createColumn(([status]) => status)

/** How each code is charged; undefined: not at all. */
export const refusalCharges: Readonly<Record<DidAuthErrorCode, RefusalCharge | undefined>> = createColumn(
  ([, , charge]) => charge
)

function createColumn<T>(read: (row: readonly [status: number, text: string, charge?: RefusalCharge]) => T) {
  const column = Object.entries(errors).map(([code, row]) => [code, read(row)] as const)
  // The return type of `Object.fromEntries` has lost the names of the codes.
  return Object.fromEntries(column) as Readonly<Record<keyof typeof errors, T>>
}

/** Additions to the fixed text of a code. All are optional. */
export interface DidAuthErrorOptions {
  /** Text that replaces the fixed one. Use it only for the application's own texts (business logic, configuration). */
  message?: string
  /** The underlying error. It is logged and never sent to a client. */
  cause?: unknown
  /** The check that refused, and its expected value. Logged; only a developer's client on this machine gets it. */
  reason?: RefusalReason
  /** Values that the client needs to continue. They are sent as extra fields of an RFC 9457 answer. */
  details?: Readonly<Record<string, string>>
  /** Whole seconds after which a retry may succeed, sent as `Retry-After`. */
  retryAfterSeconds?: number
}

/**
 * Reason for refusing a request, for the debug log: the expected value, the type of the received one, and parts of it
 * that are short and public, such as the host of an origin. It never contains a secret, signature, challenge or token.
 */
export interface RefusalReason {
  /** The check that refused: `signer`, `aud`, `origin`. */
  readonly check: string
  /** Facts for the log: `expected`, `got`, or the name of an `option`. Undefined ones are dropped. */
  readonly [field: string]: string | number | boolean | readonly string[] | undefined
}

/** Time after which a client may try again if an error names no other, in seconds. */
export const RETRY_AFTER_SECONDS = 5

/** The only error class of this package. `code` distinguishes the errors. */
export class DidAuthError extends Error {
  /** Always `DidAuthError`. */
  override readonly name = 'DidAuthError'
  /** Code of the closed list, by which callers distinguish errors. */
  readonly code: DidAuthErrorCode
  /** Whole seconds after which a retry may succeed. Undefined: the default of the answer, 5. */
  declare readonly retryAfterSeconds: number | undefined
  /** Extra fields of an RFC 9457 answer. Undefined: none. */
  declare readonly details: Readonly<Record<string, string>> | undefined
  /** The check that refused. It is logged; only a developer's client on this machine gets it. */
  declare readonly reason: RefusalReason | undefined

  constructor(code: DidAuthErrorCode, options: DidAuthErrorOptions = {}) {
    super(options.message ?? errorTexts[code], options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    // Node prints each member of an error that ends the process, so there are no undefined ones.
    const { retryAfterSeconds, details, reason } = options
    if (retryAfterSeconds !== undefined) this.retryAfterSeconds = retryAfterSeconds
    if (details !== undefined) this.details = details
    if (reason !== undefined) this.reason = reason
  }
}
