import type { Logger } from 'pino'
import { describeError } from '../watch/describe-error.js'
import type { Running } from '../listen/serve.js'

/** A little less than the 10 s after which many supervisors kill. */
const STOP_MILLISECONDS = 9_500
const LOOK_MILLISECONDS = 250

/**
 * Stops what runs by then at SIGTERM or SIGINT, and leaves with exit code 0; also when the npm that started it
 * was ended. Further signals change nothing: at Ctrl-C the terminal sends one and npm passes on another.
 *
 * @param running - may still grow: a signal may come while servers start
 */
export function stopAtSignal(running: readonly Running[], log: Logger): void {
  let isStopping = false
  const stop = async (signal: NodeJS.Signals): Promise<void> => {
    if (isStopping) return
    isStopping = true
    log.info({ event: 'stopping', signal }, 'stopping')
    setTimeout(() => {
      log.error({ event: 'stopped-late' }, 'what was under way did not end in time')
      process.exit(1)
    }, STOP_MILLISECONDS)
    const results = await Promise.allSettled(running.map((server) => server.stop()))
    const failures = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []))
    for (const failure of failures) log.error({ event: 'stop-failed', ...describeError(failure) }, 'stop failed')
    log.info({ event: 'stopped' }, 'stopped')
    process.exit(failures.length === 0 ? 0 : 1)
  }
  process.on('SIGTERM', (signal) => void stop(signal))
  process.on('SIGINT', (signal) => void stop(signal))
  whenNpmEnds(() => void stop('SIGTERM'))
}

/**
 * npm hands a signal on to the shell between itself and us, and some shells die of it without a word: we would be left
 * behind with our ports.
 */
function whenNpmEnds(end: () => void): void {
  if (process.env.npm_lifecycle_event === undefined) return
  const { ppid } = process
  const look = setInterval(() => {
    if (process.ppid === ppid) return
    clearInterval(look)
    end()
  }, LOOK_MILLISECONDS)
  look.unref()
}
