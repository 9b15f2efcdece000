import { setTimeout as pause } from 'node:timers/promises'
import type { Logger } from 'pino'
import { describeError } from '../observability/error-fields.js'

/** A little less than the 10 s after which many supervisors kill. */
const STOP_MILLISECONDS = 9_500
const CHECK_MILLISECONDS = 250

/** What a server has opened so far: it is closed in the reverse order, also when the rest of the start fails. */
export class Opened {
  /** Whether the server listens, or has listened. */
  isServing = false
  readonly #closings: (() => Promise<unknown>)[] = []

  add(close: () => Promise<unknown>): void {
    this.#closings.unshift(close)
  }

  /** Closes everything. Returns what failed. */
  async close(): Promise<unknown[]> {
    const failures: unknown[] = []
    for (const close of this.#closings.splice(0)) {
      await close().catch((error: unknown) => failures.push(error))
    }
    return failures
  }
}

/**
 * Stops at SIGTERM or SIGINT, also when the npm that started the process has ended, and exits with code 0. Further
 * signals change nothing: at Ctrl-C the terminal sends one and npm passes on another.
 *
 * @param drain - aborted at the signal, so that `/ready` answers 503; `drainSeconds` later the servers stop listening
 * @param close - closes all that is open by then: a signal may come while servers start. Resolves to what failed
 */
export function stopAtSignal(
  log: Logger,
  { drain, drainSeconds, close }: { drain: AbortController; drainSeconds: number; close: () => Promise<unknown[]> }
): void {
  const stop = async (signal: NodeJS.Signals): Promise<void> => {
    if (drain.signal.aborted) return
    log.info({ event: 'stopping', signal }, 'stopping')
    drain.abort()
    if (drainSeconds > 0) await pause(drainSeconds * 1_000)
    setTimeout(() => {
      log.error({ event: 'stopped-late' }, 'requests in flight did not end in time')
      process.exit(1)
    }, STOP_MILLISECONDS)
    const failures = await close()
    for (const failure of failures) log.error({ event: 'stop-failed', ...describeError(failure) }, 'stop failed')
    process.exit(failures.length === 0 ? 0 : 1)
  }
  process.on('SIGTERM', (signal) => void stop(signal))
  process.on('SIGINT', (signal) => void stop(signal))
  whenNpmEnds(() => void stop('SIGTERM'))
}

/** npm passes a signal to a shell in between. Some end without passing it on, and this process would keep its ports. */
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
