import { Buffer } from 'node:buffer'
import { DidAuthError, errorStatuses } from '../errors.js'
import { RESERVED_CLAIMS } from '../protocol/access-token.js'
import { isObject, type JsonObject } from '../protocol/json.js'
import { describeCause } from './describe-cause.js'
import type { Parts } from './parts.js'

/** Seconds that business logic may take. */
export const BUSINESS_LOGIC_SECONDS = 10

/** Longest JSON of the claims that it adds, in bytes, and longest text of its refusal, in characters. */
const MAX_TOKEN_CLAIMS_BYTES = 1024
const MAX_REFUSAL_LENGTH = 200

/** Errors of the program, which say nothing about the user. */
const BUILTIN_ERRORS: ReadonlySet<unknown> = new Set(
  'AggregateError EvalError RangeError ReferenceError SyntaxError TypeError URIError'.split(' ')
)

/** Codes of Node, of DNS and of databases. A SQLSTATE is five of `0-9A-Z`, at least one of them a digit. */
const FAILURE_CODE = /^(?:ERR_|EAI_|SQLITE_|ENOTFOUND$|(?=.*\d)[0-9A-Z]{5}$)/

/** The lowest status that means a failure or a busy service: it says nothing about the user. */
const FIRST_FAILURE_STATUS = 429

/** Reason of a refusal for the debug log, which then shows no stack. */
const REASON = { check: 'business logic', expected: 'no refusal' } as const

type LogicParts = Pick<Parts, 'deadline' | 'logger' | 'systemErrorCodes'>

/** Errors by which business logic refuses: any error of its own, or only `false` and a DidAuthError. */
type Refusals = 'any error' | 'explicit'

/** Whether an error says something about the user. Others are failures of the service, which end no session. */
export function isRefusal(error: unknown): error is DidAuthError {
  return error instanceof DidAuthError && errorStatuses[error.code] < FIRST_FAILURE_STATUS
}

/**
 * Runs business logic. Its refusal is logged as one line at info; a failure is a warning with its stack.
 * @throws DidAuthError ERR_BUSINESS_LOGIC when it refuses by an error (with its message) or by exactly false,
 * ERR_BUSINESS_LOGIC_TIMEOUT after 10 s, ERR_INTERNAL when it throws a failure and not a refusal; a DidAuthError of its
 * own as it is; TypeError when the claims that it returns are no JSON object of at most 1 KiB
 */
export async function runBusinessLogic(
  parts: LogicParts,
  logic: () => unknown,
  refusals: Refusals = 'any error'
): Promise<JsonObject | undefined> {
  const expired = (): Error => new DidAuthError('ERR_BUSINESS_LOGIC_TIMEOUT')
  const result = await parts.deadline.within(BUSINESS_LOGIC_SECONDS, () => ask(parts, logic, refusals), expired)
  return parseTokenClaims(isObject(result) ? result.tokenClaims : undefined)
}

async function ask(parts: LogicParts, logic: () => unknown, refusals: Refusals): Promise<unknown> {
  try {
    const result = await logic()
    if (result === false) throw new DidAuthError('ERR_BUSINESS_LOGIC', { reason: REASON })
    return result
  } catch (thrown) {
    const error = toDidAuthError(thrown, refusals === 'explicit' || isFailure(parts, thrown))
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

function toDidAuthError(cause: unknown, isServiceFault: boolean): DidAuthError {
  if (cause instanceof DidAuthError) return cause
  if (isServiceFault) return new DidAuthError('ERR_INTERNAL', { cause })
  const message = toRefusalText(cause)
  return new DidAuthError('ERR_BUSINESS_LOGIC', { cause, reason: REASON, ...(message !== '' && { message }) })
}

/** Whether an error is none of the user's: an unavailable database must not look like a refusal. */
function isFailure({ systemErrorCodes }: LogicParts, thrown: unknown): boolean {
  try {
    if (!isObject(thrown)) return false
    const { name, code, errno, syscall } = thrown
    // Its `code` is a number: `AbortSignal.timeout` throws one.
    if (thrown instanceof DOMException) return true
    if (BUILTIN_ERRORS.has(name) || errno !== undefined || syscall !== undefined) return true
    // Codes that are not known are the application's own.
    return typeof code === 'string' && (FAILURE_CODE.test(code) || systemErrorCodes.has(code))
  } catch {
    // A getter that throws is not what a refusal looks like.
    return true
  }
}

/** Returns the application's own words, fit for one line of plain text. */
function toRefusalText(thrown: unknown): string {
  let message: unknown
  try {
    message = isObject(thrown) ? thrown.message : thrown
  } catch {
    // A getter that throws is still a refusal, of few words.
  }
  if (typeof message !== 'string') return ''
  return message.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ').slice(0, MAX_REFUSAL_LENGTH)
}

function parseTokenClaims(value: unknown): JsonObject | undefined {
  if (value === undefined || value === null) return undefined
  // Converts values as the token will: a Date is an object here, and a string in JSON.
  const json = JSON.stringify(value) as string | undefined
  const claims: unknown =
    json === undefined || Buffer.byteLength(json) > MAX_TOKEN_CLAIMS_BYTES ? undefined : JSON.parse(json)
  if (!isObject(claims)) throw new TypeError('tokenClaims of business logic must be a JSON object of at most 1 KiB')
  const kept = Object.entries(claims as JsonObject).filter(([name]) => !RESERVED_CLAIMS.has(name))
  return Object.fromEntries(kept)
}
