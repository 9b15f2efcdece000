import type { Logger } from 'pino'
import { describeError } from './error-fields.js'

/**
 * Ends the process on an unexpected failure, with one line in the log. Acknowledged data is on disk, and the supervisor
 * restarts the process.
 */
export function crashLog(log: Logger): void {
  const crash = (error: unknown): void => {
    log.fatal({ event: 'crashed', ...describeError(error) }, 'crashed')
    process.exit(1)
  }
  process.on('uncaughtException', crash)
  process.on('unhandledRejection', crash)
}
