import type * as codes from './error-codes.js'

/** One code of the closed list of errors of the clients. */
export type ClientErrorCode = keyof typeof codes

/** Why a session has ended: `loggedOut` here or in another tab; `reused`: its refresh token was used twice. */
export type SessionEndReason = 'expired' | 'revoked' | 'reused' | 'loggedOut'

/** The codes whose errors have more. */
export interface ClientErrorFacts {
  SESSION_ENDED: { readonly reason: SessionEndReason }
  /** `etag` of the list as it is now. */
  CONFLICT: { readonly etag: string }
}

/** Details of a failure. */
export interface ClientErrorDetails {
  /** Text for developers: what was attempted, and what happened. It never contains a token. */
  message?: string
  /** Replaces the text for users. */
  userMessage?: string | undefined
  /** HTTP status of the answer, when there was one. */
  status?: number | undefined
  /** The service's own code, such as `ERR_CHALLENGE_USED`. */
  serverCode?: string | undefined
  /** Whole seconds after which a retry makes sense, from `Retry-After`. */
  retryAfterSeconds?: number | undefined
  cause?: unknown
}

/**
 * Errors of the clients, except what the caller's own signal, storage or callback threw. `code` tells which error it
 * is and what else it has; across bundles, compare only `code`.
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
        /** Whether the same call can succeed later without the user doing anything. */
        readonly retryable: boolean
        /** English text for users: what happened, and what to do. */
        readonly userMessage: string
      }
  : never

/** Text and retryable of a code: a row of `error-codes.ts`. */
export type ErrorKind<Code extends ClientErrorCode> = readonly [code: Code, text: string, isRetryable?: boolean]

/** Makes an error of a row of the table and what is known. */
export interface ErrorClass {
  new <Code extends ClientErrorCode>(
    kind: ErrorKind<Code>,
    ...details: Code extends keyof ClientErrorFacts
      ? [ClientErrorDetails & ClientErrorFacts[Code]]
      : [ClientErrorDetails?]
  ): DidAuthClientError<Code>
  readonly prototype: DidAuthClientError
}

/** The one class of errors, with the union over all codes for its instances, which no class can declare of itself. */
export const DidAuthClientError = class extends Error {
  constructor([code, text, retryable = false]: ErrorKind<ClientErrorCode>, details: ClientErrorDetails = {}) {
    const { userMessage = text, message = userMessage } = details
    super(message, details)
    Object.assign(this, details, { name: 'DidAuthClientError', code, userMessage, retryable })
  }
} as unknown as ErrorClass
