import { DidAuthError, type DidAuthErrorCode } from '../errors.js'
import { fieldOf } from '../protocol/json.js'

/** By the `type` that body-parser, which is `express.json()`, gives its errors. */
const CODES: ReadonlyMap<unknown, DidAuthErrorCode> = new Map([
  ['entity.parse.failed', 'ERR_JSON'],
  ['encoding.unsupported', 'ERR_JSON'],
  ['charset.unsupported', 'ERR_JSON'],
  ['request.aborted', 'ERR_JSON'],
  ['request.size.invalid', 'ERR_JSON'],
  ['entity.verify.failed', 'ERR_JSON'],
  ['entity.too.large', 'ERR_TOO_LARGE']
])

/**
 * Our error answer for a body that a body parser of the application refused; undefined for any other error.
 * Without the cause: a parser's message quotes the body.
 */
export function parserRefusal(error: unknown): DidAuthError | undefined {
  const code = CODES.get(fieldOf(error, 'type'))
  return code && new DidAuthError(code)
}
