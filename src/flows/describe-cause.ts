import { isObject } from '../protocol/json.js'

// Tokens, signatures, hashes and keys are long runs without a blank; words and paths are not.
const SECRET = /[A-Za-z0-9_-]{32,}/g
const MAX_LENGTH = 2_000
const MAX_DEPTH = 5

/**
 * The fields of an error that a log may show: name, code, message and stack of it and of its causes. Every text that
 * could be a token, a signature, a challenge or a key is cut out. Libraries quote their input in messages.
 */
export function describeCause(cause: unknown, depth = 0): unknown {
  if (cause === undefined) return undefined
  if (!isObject(cause) || depth === MAX_DEPTH) return { type: typeof cause }
  try {
    const texts = ['name', 'code', 'message', 'stack'].flatMap((field) => {
      const value = cause[field]
      // Secrets first: the piece of one that a shorter text ends with would be too short to be known for what it is.
      const isText = typeof value === 'string' || typeof value === 'number'
      return isText ? [[field, String(value).replace(SECRET, '[cut]').slice(0, MAX_LENGTH)]] : []
    })
    const { cause: deeper } = cause
    return { ...Object.fromEntries(texts), ...(deeper !== undefined && { cause: describeCause(deeper, depth + 1) }) }
  } catch {
    // A getter that throws.
    return { type: 'unreadable' }
  }
}
