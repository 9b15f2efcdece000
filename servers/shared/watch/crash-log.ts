import type { Logger } from 'pino'
import { describeError } from './describe-error.js'

/**
 * Ends the process when something fails that nobody foresaw, with one line in the log: what is acknowledged is on the
 * disk, and whoever supervises the process starts it again.
 */
export function crashLog(log: Logger): void {
  const crash = (error: unknown): void => {
    log.fatal({ event: 'crashed', ...describeError(error) }, 'crashed')
    process.exit(1)
  }
  process.on('uncaughtException', crash)
  process.on('unhandledRejection', crash)
}
