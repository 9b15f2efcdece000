import { cutSecrets } from '../protocol/describe-value.js'
import { isObject } from '../protocol/json.js'

const MAX_LENGTH = 2_000
const MAX_DEPTH = 5

/**
 * Returns the fields of an error that a log may show: name, code, message and stack, also of its causes. Libraries
 * quote their input in messages, so every text that may be a token, signature, challenge or key is cut out.
 */
export function describeCause(cause: unknown, depth = 0): unknown {
  if (cause === undefined) return undefined
  if (!isObject(cause) || depth === MAX_DEPTH) return { type: typeof cause }
  try {
    const texts = ['name', 'code', 'message', 'stack'].flatMap((field) => {
      const value = cause[field]
      // Cut secrets out before shortening the text: shortening could leave a part of a secret too short to be found.
      const isText = typeof value === 'string' || typeof value === 'number'
      return isText ? [[field, cutSecrets(String(value)).slice(0, MAX_LENGTH)]] : []
    })
    const { cause: deeper } = cause
    return { ...Object.fromEntries(texts), ...(deeper !== undefined && { cause: describeCause(deeper, depth + 1) }) }
  } catch {
    // A getter of the error threw.
    return { type: 'unreadable' }
  }
}
