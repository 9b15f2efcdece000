import type * as codes from './error-codes.js'

/** One code of the closed list of errors of the clients. */
export type ClientErrorCode = keyof typeof codes

/**
 * Reason for the end of a session: `loggedOut` here or in another tab; `reused`: its refresh token was used twice;
 * `deviceLost`: the session is bound to a key that this device does not have.
 */
export type SessionEndReason = 'expired' | 'revoked' | 'reused' | 'loggedOut' | 'deviceLost'

/** Further fields of errors, by code. */
export interface ClientErrorFacts {
  /** `reason` for which the session ended. */
  SESSION_ENDED: { readonly reason: SessionEndReason }
  /** `etag` of the current list. */
  CONFLICT: { readonly etag: string }
}

/** Details of a failure. */
export interface ClientErrorDetails {
  /** Text for developers: what was attempted, and what happened. It never contains a token. */
  message?: string
  /** Replaces the text for users. */
  userMessage?: string | undefined
  /** HTTP status of the response, if one arrived. */
  status?: number | undefined
  /** The service's own code, such as `ERR_CHALLENGE_USED`. */
  serverCode?: string | undefined
  /** Whole seconds after which a retry makes sense, from `Retry-After`. */
  retryAfterSeconds?: number | undefined
  /** Id of the user's new passkey in base64url, whose second prompt failed: `openPasskey` opens it. */
  passkeyId?: string | undefined
  /** Underlying error: of `fetch`, the wallet or the service. */
  cause?: unknown
}

/**
 * All errors of the clients, except those of the caller's own signal, storage or callbacks. `code` identifies the error
 * and its further fields. Compare only `code` if the entries are in separate bundles.
 *
 * @example
 * try {
 *   await auth.logIn()
 * } catch (error) {
 *   if (!(error instanceof DidAuthClientError)) throw error
 *   if (error.code !== 'USER_REJECTED') show(error.userMessage)
 * }
 */
export type DidAuthClientError<Code extends ClientErrorCode = ClientErrorCode> = Code extends ClientErrorCode
  ? Error &
      Readonly<ClientErrorDetails> &
      (Code extends keyof ClientErrorFacts ? ClientErrorFacts[Code] : unknown) & {
        readonly code: Code
        /** Whether the same call can succeed later without an action of the user. */
        readonly retryable: boolean
        /** English text for users: what happened, and what to do. */
        readonly userMessage: string
      }
  : never

/** A row of `error-codes.ts`: code, text for users, and whether a retry can succeed. */
export type ErrorKind<Code extends ClientErrorCode> = readonly [code: Code, text: string, isRetryable?: boolean]

/** Constructor of errors from a row of `error-codes.ts` and details. */
export interface ErrorClass {
  /** Creates an error. Details are required for codes with further fields. */
  new <Code extends ClientErrorCode>(
    kind: ErrorKind<Code>,
    ...details: Code extends keyof ClientErrorFacts
      ? [ClientErrorDetails & ClientErrorFacts[Code]]
      : [ClientErrorDetails?]
  ): DidAuthClientError<Code>
  /** Prototype of all errors, for `instanceof`. */
  readonly prototype: DidAuthClientError
}

/** The class of all errors. Its instances have the union type over all codes, which a class cannot declare. */
export const DidAuthClientError = class extends Error {
  constructor([code, text, retryable = false]: ErrorKind<ClientErrorCode>, details: ClientErrorDetails = {}) {
    const { userMessage = text, message = userMessage } = details
    super(message, details)
    Object.assign(this, details, { name: 'DidAuthClientError', code, userMessage, retryable })
  }
} as unknown as ErrorClass
