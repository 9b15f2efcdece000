import type { Clock, Logger, OnSecurityEvent, SecurityEvent } from '../ports.js'

interface ReporterParts {
  clock: Clock
  logger: Logger
  onSecurityEvent: OnSecurityEvent | undefined
}

/** Hands security events to the application. A listener that throws or rejects is logged, and fails no request. */
export function securityReporter({
  clock,
  logger,
  onSecurityEvent
}: ReporterParts): (event: Omit<SecurityEvent, 'atSeconds'>) => void {
  const failed = (): void => {
    // Without the cause: it may quote the event.
    try {
      logger.error({ event: 'security-listener-failed' }, 'onSecurityEvent threw')
    } catch {
      // A logger that throws as well must not end the process by an unhandled rejection.
    }
  }
  return (event) => {
    if (onSecurityEvent === undefined) return
    try {
      Promise.resolve(onSecurityEvent({ ...event, atSeconds: clock.nowSeconds() })).catch(failed)
    } catch {
      failed()
    }
  }
}
