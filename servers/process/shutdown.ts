import { setTimeout as pause } from 'node:timers/promises'
import type { Logger } from 'pino'
import { describeError } from '../observability/error-fields.js'
import type { Running } from '../http/listen.js'

/** A little less than the 10 s after which many supervisors kill. */
const STOP_MILLISECONDS = 9_500
const CHECK_MILLISECONDS = 250

export interface Stopping {
  /** Aborted at the signal, so that `/ready` answers 503. */
  drain: AbortController
  /** So much later the servers stop listening. */
  drainSeconds: number
  /** What is closed once they have stopped. */
  closing: readonly { close: () => Promise<void> }[]
}

/**
 * Stops all running servers at SIGTERM or SIGINT, also when the npm that started the process has ended, and exits with code
 * 0. Further signals change nothing: at Ctrl-C the terminal sends one and npm passes on another.
 *
 * @param running - may still grow: a signal may come while servers start
 */
export function stopAtSignal(
  running: readonly Running[],
  log: Logger,
  { drain, drainSeconds, closing }: Stopping
): void {
  let isStopping = false
  const stop = async (signal: NodeJS.Signals): Promise<void> => {
    if (isStopping) return
    isStopping = true
    log.info({ event: 'stopping', signal }, 'stopping')
    drain.abort()
    if (drainSeconds > 0) await pause(drainSeconds * 1_000)
    setTimeout(() => {
      log.error({ event: 'stopped-late' }, 'requests in flight did not end in time')
      process.exit(1)
    }, STOP_MILLISECONDS)
    const results = await Promise.allSettled(running.map((server) => server.stop()))
    results.push(...(await Promise.allSettled(closing.map((one) => one.close()))))
    const failures = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []))
    for (const failure of failures) log.error({ event: 'stop-failed', ...describeError(failure) }, 'stop failed')
    process.exit(failures.length === 0 ? 0 : 1)
  }
  process.on('SIGTERM', (signal) => void stop(signal))
  process.on('SIGINT', (signal) => void stop(signal))
  whenNpmEnds(() => void stop('SIGTERM'))
}

/**
 * npm passes a signal to the shell between itself and this process. Some shells end without passing it on, and this process
 * would keep its ports.
 */
function whenNpmEnds(end: () => void): void {
  if (process.env.npm_lifecycle_event === undefined) return
  const { ppid } = process
  const check = setInterval(() => {
    if (process.ppid === ppid) return
    clearInterval(check)
    end()
  }, CHECK_MILLISECONDS)
  check.unref()
}
