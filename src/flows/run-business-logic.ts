import { Buffer } from 'node:buffer'
import { DidAuthError } from '../errors.js'
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

/** Codes of Node and of this package, and SQLSTATEs: five of `0-9A-Z`, at least one of them a digit. */
const FAILURE_CODE = /^(?:ERR_|SQLITE_|(?=.*\d)[0-9A-Z]{5}$)/

/**
 * Runs business logic. What it throws is logged.
 * @throws DidAuthError ERR_BUSINESS_LOGIC when it throws (with its message) or returns exactly false,
 * ERR_BUSINESS_LOGIC_TIMEOUT after 10 s, ERR_INTERNAL when it throws a failure and not a refusal; a DidAuthError of its
 * own as it is; TypeError when the claims that it returns are no JSON object of at most 1 KiB
 */
export async function runBusinessLogic(
  parts: Pick<Parts, 'deadline' | 'logger'>,
  logic: () => unknown
): Promise<JsonObject | undefined> {
  const expired = (): Error => new DidAuthError('ERR_BUSINESS_LOGIC_TIMEOUT')
  const result = await parts.deadline.within(BUSINESS_LOGIC_SECONDS, () => withRefusals(parts, logic), expired)
  if (result === false) throw new DidAuthError('ERR_BUSINESS_LOGIC')
  return parseTokenClaims(isObject(result) ? result.tokenClaims : undefined)
}

async function withRefusals({ logger }: Pick<Parts, 'logger'>, logic: () => unknown): Promise<unknown> {
  try {
    return await logic()
  } catch (cause) {
    logger.warn({ event: 'business-logic-threw', cause: describeCause(cause) }, 'business logic threw')
    if (cause instanceof DidAuthError) throw cause
    if (isFailure(cause)) throw new DidAuthError('ERR_INTERNAL', { cause })
    const message = refusalText(cause)
    throw new DidAuthError('ERR_BUSINESS_LOGIC', message === '' ? { cause } : { cause, message })
  }
}

/** An unavailable database must not look like a refused user. Codes that are not known are the application's own. */
function isFailure(thrown: unknown): boolean {
  try {
    if (!isObject(thrown)) return false
    const { name, code, errno, syscall } = thrown
    // Its `code` is a number: `AbortSignal.timeout` throws one.
    if (thrown instanceof DOMException) return true
    if (BUILTIN_ERRORS.has(name) || errno !== undefined || syscall !== undefined) return true
    return typeof code === 'string' && FAILURE_CODE.test(code)
  } catch {
    // A getter that throws is not what a refusal looks like.
    return true
  }
}

/** The application's own words, fit for one line of plain text. */
function refusalText(thrown: unknown): string {
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
  // As the token would carry them: a Date is an object here, and a string there.
  const json = JSON.stringify(value) as string | undefined
  const claims: unknown =
    json === undefined || Buffer.byteLength(json) > MAX_TOKEN_CLAIMS_BYTES ? undefined : JSON.parse(json)
  if (!isObject(claims)) throw new TypeError('tokenClaims of business logic must be a JSON object of at most 1 KiB')
  const kept = Object.entries(claims as JsonObject).filter(([name]) => !RESERVED_CLAIMS.has(name))
  return Object.fromEntries(kept)
}
