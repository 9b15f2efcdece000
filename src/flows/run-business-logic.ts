import { Buffer } from 'node:buffer'
import { DidAuthError, errorStatuses } from '../errors.js'
import { RESERVED_CLAIMS } from '../protocol/access-token.js'
import { isObject, type JsonObject } from '../protocol/json.js'
import { REQUEST_SECONDS } from '../time-limits.js'
import { describeCause } from './describe-cause.js'
import type { Parts } from './parts.js'

/** Maximum length of the claims that business logic adds, in bytes of JSON. */
const MAX_TOKEN_CLAIMS_BYTES = 1024
/** Maximum length of a refusal's text, in characters. */
const MAX_REFUSAL_LENGTH = 200

/** Names of errors that show a defect of the program and never refuse a user. */
const BUILTIN_ERRORS: ReadonlySet<unknown> = new Set(
  'AggregateError EvalError RangeError ReferenceError SyntaxError TypeError URIError'.split(' ')
)

/** Error codes of Node, DNS and databases. A SQLSTATE has five characters of `0-9A-Z`, with at least one digit. */
const FAILURE_CODE = /^(?:ERR_|EAI_|SQLITE_|ENOTFOUND$|(?=.*\d)[0-9A-Z]{5}$)/

/** Lowest status of errors that are no decision about the user: rate limits, failures, unavailability. */
const FIRST_FAILURE_STATUS = 429

/** Reason of a refusal for the debug log, in place of a stack. */
const REASON = { check: 'business logic', expected: 'no refusal' } as const

type LogicParts = Pick<Parts, 'deadline' | 'logger' | 'systemErrorCodes'>

/** Ways to refuse: by any error of the application, or (`explicit`) only by `false` and a DidAuthError. */
type Refusals = 'any error' | 'explicit'

/** Whether an error is a decision about the user. Other errors are failures of the service, and end no session. */
export function isRefusal(error: unknown): error is DidAuthError {
  return error instanceof DidAuthError && errorStatuses[error.code] < FIRST_FAILURE_STATUS
}

/**
 * Runs business logic, and returns the claims to add. A refusal is logged at info in one line; a failure is logged as a
 * warning with its stack.
 * @throws DidAuthError ERR_BUSINESS_LOGIC if it refuses by exactly `false`, or, unless refusals are `explicit`, by an
 * error (with the error's message); ERR_BUSINESS_LOGIC_TIMEOUT after 10 s; ERR_INTERNAL for a failure; any DidAuthError
 * that it throws
 * @throws TypeError unless the claims that it returns are a JSON object of at most 1 KiB
 */
export async function runBusinessLogic(
  parts: LogicParts,
  logic: () => unknown,
  refusals: Refusals = 'any error'
): Promise<JsonObject | undefined> {
  const expired = (): Error => new DidAuthError('ERR_BUSINESS_LOGIC_TIMEOUT')
  const result = await parts.deadline.within(REQUEST_SECONDS, () => callLogic(parts, logic, refusals), expired)
  return parseTokenClaims(isObject(result) ? result.tokenClaims : undefined)
}

async function callLogic(parts: LogicParts, logic: () => unknown, refusals: Refusals): Promise<unknown> {
  try {
    const result = await logic()
    if (result === false) throw new DidAuthError('ERR_BUSINESS_LOGIC', { reason: REASON })
    return result
  } catch (thrown) {
    const error = toDidAuthError(parts, thrown, refusals)
    const cause = describeCause(thrown)
    if (isRefusal(error)) {
      const fields = { event: 'business-logic-refused', code: error.code, text: toRefusalText(cause) }
      parts.logger.info(fields, 'business logic refused')
    } else {
      parts.logger.warn({ event: 'business-logic-threw', cause }, 'business logic threw')
    }
    throw error
  }
}

function toDidAuthError(parts: LogicParts, cause: unknown, refusals: Refusals): DidAuthError {
  if (cause instanceof DidAuthError) return cause
  if (refusals === 'explicit' || isFailure(parts, cause)) return new DidAuthError('ERR_INTERNAL', { cause })
  const message = toRefusalText(cause)
  return new DidAuthError('ERR_BUSINESS_LOGIC', { cause, reason: REASON, ...(message !== '' && { message }) })
}

/** Whether an error is a failure and not a decision about the user, such as an unavailable database. */
function isFailure({ systemErrorCodes }: LogicParts, thrown: unknown): boolean {
  try {
    if (!isObject(thrown)) return false
    const { name, code, errno, syscall } = thrown
    // `AbortSignal.timeout` throws a DOMException, whose `code` is a number.
    if (thrown instanceof DOMException) return true
    if (BUILTIN_ERRORS.has(name) || errno !== undefined || syscall !== undefined) return true
    // Any other code is one of the application.
    return typeof code === 'string' && (FAILURE_CODE.test(code) || systemErrorCodes.has(code))
  } catch {
    // A getter of the error threw, so the error is no refusal.
    return true
  }
}

/** Returns the message of a refusal as one line of plain text; empty if it has none. */
function toRefusalText(thrown: unknown): string {
  let message: unknown
  try {
    message = isObject(thrown) ? thrown.message : thrown
  } catch {
    // A getter of the error threw: the refusal has no message.
  }
  if (typeof message !== 'string') return ''
  return message.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ').slice(0, MAX_REFUSAL_LENGTH)
}

function parseTokenClaims(value: unknown): JsonObject | undefined {
  if (value === undefined || value === null) return undefined
  // Convert values to JSON, as in the token: a Date becomes a string.
  const json = JSON.stringify(value) as string | undefined
  const claims: unknown =
    json === undefined || Buffer.byteLength(json) > MAX_TOKEN_CLAIMS_BYTES ? undefined : JSON.parse(json)
  if (!isObject(claims)) throw new TypeError('tokenClaims of business logic must be a JSON object of at most 1 KiB')
  return Object.fromEntries(Object.entries(claims as JsonObject).filter(([name]) => !RESERVED_CLAIMS.has(name)))
}
