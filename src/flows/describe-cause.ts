import { isObject } from '../protocol/json.js'

// Tokens, signatures, hashes and keys are long runs without a blank; words and paths are not.
const SECRET = /[A-Za-z0-9_-]{32,}/g
const MAX_LENGTH = 2_000
const MAX_DEPTH = 5

/**
 * The fields of an error that a log may show: name, code, message and stack of it and of its causes. Every text that could be
 * a token, a signature, a challenge or a key is cut out. Libraries quote their input in messages.
 */
export function describeCause(cause: unknown, depth = 0): unknown {
  if (!isObject(cause) || depth === MAX_DEPTH) return cause === undefined ? undefined : { type: typeof cause }
  try {
    return describeObject(cause, depth)
  } catch {
    // A getter that throws.
    return { type: 'unreadable' }
  }
}

function describeObject(cause: Record<string, unknown>, depth: number): unknown {
  const { name, code, message, stack } = cause
  return {
    ...withText({ name, code, message, stack }),
    ...(cause.cause !== undefined && { cause: describeCause(cause.cause, depth + 1) })
  }
}

function withText(fields: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(fields).flatMap(([name, value]) => {
      if (typeof value !== 'string' && typeof value !== 'number') return []
      // Secrets first: the piece of one that a shorter text ends with would be too short to be known for what it is.
      return [[name, String(value).replace(SECRET, '[cut]').slice(0, MAX_LENGTH)]]
    })
  )
}
