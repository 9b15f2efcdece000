const MINUTE_MILLISECONDS = 60_000
/** How long a stop waits for what is under way. */
const STOP_MILLISECONDS = 3_000
/** Which part of a minute may be added, so that processes that start together do not work together. */
const JITTER = 0.2

/** Work that repeats. */
export interface RepeatedWork {
  /** Ends it. Resolves when nothing is under way, or after 3 s. */
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
    await work(stopping.signal).catch((error: unknown) => {
      if (!stopping.signal.aborted) onFailure(error)
    })
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
      // Work that waits for something unavailable is left behind: it is safe to end anywhere.
      let late: NodeJS.Timeout | undefined
      const tooLate = new Promise<void>((resolve) => {
        late = setTimeout(resolve, STOP_MILLISECONDS).unref()
      })
      await Promise.race([underWay, tooLate])
      clearTimeout(late)
    }
  }
}
