import { errorStatuses } from '../errors.js'
import type { Logger } from '../ports.js'
import { cutSecrets } from '../protocol/describe-value.js'
import { isObject, readField } from '../protocol/json.js'

const MAX_LENGTH = 2_000
const MAX_DEPTH = 5

/**
 * Returns the fields of an error that a log may show: name, code, message and stack, also of its causes. Libraries
 * quote their input in messages, so every text that may be a token, signature, challenge or key is cut out.
 *
 * @param options.hasStack - false for a service that is unavailable: where this library noticed it says nothing
 */
export function describeCause(cause: unknown, { hasStack = true } = {}, depth = 0): unknown {
  if (cause === undefined) return undefined
  if (!isObject(cause) || depth === MAX_DEPTH) return { type: typeof cause }
  try {
    const texts = ['name', 'code', 'message', ...(hasStack ? ['stack'] : [])].flatMap((field) => {
      const value = cause[field]
      // Cut secrets out before shortening the text: shortening could leave a part of a secret too short to be found.
      const isText = typeof value === 'string' || typeof value === 'number'
      return isText ? [[field, cutSecrets(String(value)).slice(0, MAX_LENGTH)]] : []
    })
    const { cause: deeper } = cause
    return {
      ...Object.fromEntries(texts),
      ...(deeper !== undefined && { cause: describeCause(deeper, { hasStack }, depth + 1) })
    }
  } catch {
    // A getter of the error threw.
    return { type: 'unreadable' }
  }
}

/**
 * Logs a failure of the service. If another service is unavailable, the line contains no stack, and a line at debug
 * does.
 */
export function logFailure(
  logger: Pick<Logger, 'error' | 'debug'>,
  fields: Readonly<Record<string, unknown>>,
  error: { code?: unknown; cause: unknown; text: string }
): void {
  const { code, cause, text } = error
  const isUnavailable = readField(errorStatuses, String(code)) === 503
  logger.error({ ...fields, cause: describeCause(cause, { hasStack: !isUnavailable }) }, text)
  if (isUnavailable) logger.debug?.({ event: 'failure-stack', code, cause: describeCause(cause) }, text)
}
