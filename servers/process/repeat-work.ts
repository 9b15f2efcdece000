const MINUTE_MILLISECONDS = 60_000
/** Which part of a minute may be added, so that processes that start together do not work together. */
const JITTER = 0.2

/** Work that repeats. */
export interface RepeatedWork {
  /** Ends it. Resolves when nothing is under way. */
  stop(): Promise<void>
}

/**
 * Runs work now and about every minute, never twice at once. It keeps no process alive.
 *
 * @param work - the signal tells it to stop early
 * @param onFailure - called with each failure; the next minute tries again
 */
export function repeatWork(
  work: (signal: AbortSignal) => Promise<void>,
  onFailure: (error: unknown) => void
): RepeatedWork {
  const stopping = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const run = async (): Promise<void> => {
    await work(stopping.signal).catch(onFailure)
    if (stopping.signal.aborted) return
    const milliseconds = MINUTE_MILLISECONDS * (1 + JITTER * Math.random())
    timer = setTimeout(() => {
      underWay = run()
    }, milliseconds).unref()
  }
  let underWay = run()
  return {
    stop: async () => {
      stopping.abort()
      clearTimeout(timer)
      await underWay
    }
  }
}
