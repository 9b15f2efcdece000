import type { Logger } from 'pino'
import { getErrorCode } from '../config/startup-error.js'

// Threads of databases load this file, and no logger.
const MAX_FRAMES = 10

/** Returns the parts of an error for logs. Not its message: libraries quote their input there, even tokens and keys. */
export function describeError(error: unknown): { type: string; code?: string; at: string[] } {
  // Not `instanceof`: an error may be of another realm.
  if (typeof error !== 'object' || error === null || !('message' in error)) return { type: typeof error, at: [] }
  const { constructor, message, stack = '' } = error as Error
  const code = getErrorCode(error)
  // Only lines after the message are frames, because the message itself may look like a stack.
  const start = message === '' ? 0 : stack.indexOf(message)
  const lines = start === -1 ? [] : stack.slice(start + message.length).split('\n')
  const at = lines.flatMap((line) => /^ {4}at (.+)$/.exec(line)?.[1] ?? []).slice(0, MAX_FRAMES)
  return { type: constructor.name, ...(code !== undefined && { code }), at }
}

/** Ends the process on an unexpected failure. Acknowledged data is on disk, and the supervisor restarts the process. */
export function exitOnCrash(log: Logger): void {
  const crash = (error: unknown): void => {
    log.fatal({ event: 'crashed', ...describeError(error) }, 'crashed')
    process.exit(1)
  }
  process.on('uncaughtException', crash)
  process.on('unhandledRejection', crash)
}
