import type { Logger } from 'pino'
import { getErrorCode } from '../config/startup-error.js'

// Database threads load this file, so it must not import the logger.
const MAX_FRAMES = 10

/** Returns the loggable parts of an error. Its message is omitted, because libraries quote tokens and keys there. */
export function describeError(error: unknown): { type: string; code?: string; at: string[] } {
  // `instanceof` would miss errors of another realm.
  if (typeof error !== 'object' || error === null || !('message' in error)) return { type: typeof error, at: [] }
  const { constructor, message, stack = '' } = error as Error
  const code = getErrorCode(error)
  // Only lines after the message are frames, because the message itself may look like a stack trace.
  const start = message === '' ? 0 : stack.indexOf(message)
  const lines = start === -1 ? [] : stack.slice(start + message.length).split('\n')
  const at = lines.flatMap((line) => /^ {4}at (.+)$/.exec(line)?.[1] ?? []).slice(0, MAX_FRAMES)
  return { type: constructor.name, ...(code !== undefined && { code }), at }
}

/** Ends the process at an unhandled error. Acknowledged data is on disk, and the supervisor restarts the process. */
export function exitOnCrash(log: Logger): void {
  const crash = (error: unknown): void => {
    log.fatal({ event: 'crashed', ...describeError(error) }, 'exiting after an unexpected error')
    process.exit(1)
  }
  process.on('uncaughtException', crash)
  process.on('unhandledRejection', crash)
}
