import { codeOf } from '../environment/start-error.js'

const MAX_FRAMES = 10

/** What a log may say of an error. */
export interface ErrorFields {
  type: string
  code?: string
  at: string[]
}

/**
 * Kind, code and places of an error. Not its message: libraries like to quote what they were given, which may be a
 * token or a key.
 */
export function describeError(error: unknown): ErrorFields {
  if (!isErrorLike(error)) return { type: typeof error, at: [] }
  const code = codeOf(error)
  return { type: error.constructor.name, ...(code !== undefined && { code }), at: framesOf(error) }
}

/** Not `instanceof`: an error may be of another realm. */
function isErrorLike(error: unknown): error is Pick<Error, 'stack' | 'message'> & { constructor: { name: string } } {
  return typeof error === 'object' && error !== null && 'message' in error && typeof error.message === 'string'
}

/** The stack after the message, which may itself look like a stack. */
function framesOf({ stack = '', message }: Pick<Error, 'stack' | 'message'>): string[] {
  const start = message === '' ? 0 : stack.indexOf(message)
  if (start === -1) return []
  const lines = stack.slice(start + message.length).split('\n')
  return lines.flatMap((line) => /^ {4}at (.+)$/.exec(line)?.[1] ?? []).slice(0, MAX_FRAMES)
}
